# Client-side and server-side apply.

cat >colours.yaml <<E
{apiVersion: v1, kind: ConfigMap, metadata: {name: colours, labels: {tier: front}}, data: {sky: blue, grass: green}}
E

kubectl apply --filename colours.yaml

kubectl apply --filename colours.yaml

kubectl get configmap colours --output yaml

sed -i 's/, grass: green//; s/blue/grey/' colours.yaml; kubectl diff --filename colours.yaml | grep '^[+-] '

kubectl apply --filename colours.yaml

kubectl apply view-last-applied configmap colours

kubectl get configmap colours --output jsonpath='{.data}{"\n"}'

kubectl apply --filename colours.yaml --dry-run=server

kubectl apply --server-side --filename colours.yaml

sed -i 's/grey/red/' colours.yaml; kubectl apply --server-side --field-manager=other --filename colours.yaml

kubectl apply --server-side --field-manager=other --force-conflicts --filename colours.yaml

kubectl get configmap colours --output jsonpath='{range .metadata.managedFields[*]}{.manager} {.operation} {.fieldsV1}{"\n"}{end}'

kubectl apply --filename - <<E
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: hello}
spec: {description: Say hello, agentRef: {name: nobody}, urgency: high}
E

kubectl apply --filename - <<E
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: hello}
spec: {description: Say hello, agentRef: {name: nobody}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: beside}}
E

kubectl apply --filename - <<E
{apiVersion: example.com/v1, kind: Unheard, metadata: {name: of}}
E

kubectl apply --server-side --filename - <<E
{apiVersion: v1, kind: ConfigMap, metadata: {name: beside}, data: {number: 1}}
E
