# Deletion: what waits, what goes along, what stays.

kubectl create configmap a; kubectl create configmap b; kubectl label configmap a b group=ab

kubectl delete configmap --selector group=ab

kubectl delete configmap a

kubectl delete configmap a --ignore-not-found

kubectl create --filename - <<E
{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}
E

kubectl delete configmap held --wait=false

kubectl get configmap held --output jsonpath='{.metadata.finalizers}{"\n"}'

kubectl patch configmap held --type merge --patch '{"metadata":{"finalizers":null}}'; kubectl get configmap held

kubectl create deployment web --image=example.com/web:1

kubectl wait --for=jsonpath='{.status.replicas}'=1 deployment/web --timeout=60s

kubectl delete deployment web --cascade=orphan

kubectl get replicasets --selector app=web --output jsonpath='{.items[*].spec.replicas} {.items[*].metadata.ownerReferences}{"\n"}'

kubectl delete replicaset --selector app=web --cascade=foreground | sed 's/"web-[^"]*"/web-[hash]/'

kubectl get pods --selector app=web

kubectl create deployment web --image=example.com/web:1

kubectl wait --for=jsonpath='{.status.replicas}'=1 deployment/web --timeout=60s

kubectl delete deployment web --cascade=background

kubectl wait --for=delete replicaset,pod --selector app=web --timeout=60s

kubectl get replicasets,pods --selector app=web

kubectl run p --image=example.com/p

kubectl delete pod p --grace-period=5 --dry-run=server

kubectl delete pod p --grace-period=0 --force

kubectl run p --image=example.com/p

kubectl delete pod p --now

kubectl delete pods --all
