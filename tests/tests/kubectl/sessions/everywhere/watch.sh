# Changes as they happen.

kubectl create configmap colours --from-literal=sky=blue

kubectl get configmap colours --watch --output-watch-events --output jsonpath='{.type} {.object.metadata.labels}{"\n"}' >seen & sleep 0.1
until grep -q ADDED seen; do sleep 0.05; done
kubectl label configmap colours tier=front
kubectl delete configmap colours
until grep -q DELETED seen; do sleep 0.05; done
kill $!; cat seen

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Say hello, agentRef: {name: nobody}}}
E

kubectl get tasks --watch >seen & sleep 0.1
until grep -q ^t seen; do sleep 0.05; done
kubectl patch task t --subresource status --type merge --patch '{"status":{"phase":"Running"}}'
until grep -q Running seen; do sleep 0.05; done
kill $!; cat seen
