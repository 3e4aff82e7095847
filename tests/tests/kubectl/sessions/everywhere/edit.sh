# Editors that are scripts.

kubectl create configmap colours --from-literal=sky=blue

KUBE_EDITOR='sed -i s/blue/grey/' kubectl edit configmap colours

kubectl get configmap colours --output jsonpath='{.data.sky}{"\n"}'

EDITOR=true kubectl edit configmap colours

EDITOR=false kubectl edit configmap colours 2>&1 | sed 's/".*/"[file]/'

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Say hello, agentRef: {name: nobody}, timeout: 5m}}
E

KUBE_EDITOR='sed -i s/hello/bye/' kubectl edit task t; kubectl get task t --output jsonpath='{.spec.description}{"\n"}'

KUBE_EDITOR='sed -i s/5m/soon/' kubectl edit task t 2>&1 | sed 's/"[^"]*kubectl-edit[^"]*"/[file]/'

kubectl edit task missing
