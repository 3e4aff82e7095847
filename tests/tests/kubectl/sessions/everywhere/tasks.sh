# Our own kinds, as kubectl shows them.

kubectl get tasks

kubectl create --filename - <<E
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: fix-it, labels: {team: payments}}
spec: {description: Fix the flaky test, agentRef: {name: devbox}, timeout: 10m}
E

kubectl patch task fix-it --subresource status --type merge --patch '{"status":{"phase":"Running","podName":"fix-it-pod"}}'

kubectl get tk

kubectl get tasks --output wide --show-labels

kubectl get tasks.kubeopencode.io fix-it --output yaml

kubectl describe task fix-it

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: bad}, spec: {description: Both, agentRef: {name: a}, templateRef: {name: b}}}
E

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: bad}, spec: {agentRef: a}}
E

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: bad}, spec: {description: Hello, agentRef: {name: a}, colour: red}}
E

kubectl create --validate=warn --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: warned}, spec: {description: Hello, agentRef: {name: a}, colour: red}}
E

kubectl create --validate=ignore --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: ignored}, spec: {description: Hello, agentRef: {name: a}, colour: red}}
E

kubectl get tasks --sort-by .metadata.name --output custom-columns=NAME:.metadata.name,SPEC:.spec

kubectl get tasks --selector team=payments --output name

kubectl get tasks,configmaps --field-selector metadata.name=fix-it

kubectl delete tasks --all
