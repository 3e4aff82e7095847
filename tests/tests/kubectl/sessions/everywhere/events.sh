# Events, which carry their ages.

kubectl create configmap colours

kubectl create --filename - <<E
apiVersion: v1
kind: Event
metadata: {name: colours.1}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: colours, namespace: $NAMESPACE}
type: Warning
reason: Faded
message: The colours have faded
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
count: 1
source: {component: sun}
E

kubectl events

kubectl events --for configmap/colours --types Warning --no-headers

kubectl events --types Normal

kubectl get events --field-selector reason=Faded,involvedObject.name=colours

kubectl get events --output wide

kubectl delete event colours.1
