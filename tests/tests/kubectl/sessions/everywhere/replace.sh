# Objects put in the place of others.

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Say hello, agentRef: {name: nobody}}}
E

kubectl get task t --output json >old.json; sed 's/Say hello/Say bye/' old.json | kubectl replace --filename -

kubectl replace --filename old.json

kubectl get task t --output jsonpath='{.spec.description} {.metadata.generation}{"\n"}'

kubectl replace --force --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Begin again, agentRef: {name: nobody}}}
E

kubectl get task t --output jsonpath='{.spec.description} {.metadata.generation}{"\n"}'

kubectl replace --filename - <<E
{apiVersion: v1, kind: ConfigMap, metadata: {name: missing}}
E
