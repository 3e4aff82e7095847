# A Pod from its beginning to its end.

kubectl create --filename - <<'E'
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'echo begun; trap exit TERM; while :; do sleep 0.1; done'], env: [{name: COLOUR, value: blue}]}
  - {name: beside, image: busybox, command: [sh, -c, 'exec sleep 1000']}
E

kubectl wait --for=condition=Ready pod/p --timeout=60s

kubectl get pods

kubectl get pod p --output wide --no-headers | awk '{print $1, $2, $3, $7, $8, $9}'

kubectl describe pod p --show-events=false

kubectl logs p

kubectl exec p -- sh -c 'echo $COLOUR; echo complaint >&2; exit 7'

kubectl exec p --container beside -- sh -c 'echo ${COLOUR:-no colour}'

kubectl exec p --container nobody -- true

kubectl exec p -- no-such-program

echo 'from outside' | kubectl exec --stdin p -- sh -c 'read -r line; echo "heard: $line"'

seq 200000 | kubectl exec --stdin p -- md5sum; seq 200000 | md5sum

kubectl exec p -- seq 200000 | md5sum

kubectl exec missing -- true

kubectl events --for pod/p --no-headers | awk '{$1 = ""; print}' | sort

kubectl delete pod p

kubectl get pod p

kubectl run broken --image busybox --restart Never --command -- /no/such/program

kubectl wait --for=jsonpath='{.status.phase}'=Failed pod/broken --timeout=60s

kubectl get pod broken --output jsonpath='{.status.containerStatuses[0].state.terminated.exitCode} {.status.containerStatuses[0].state.terminated.reason}{"\n"}'

kubectl logs broken

kubectl events --for pod/broken

kubectl describe pod broken | sed -n '/^Events:/,$p'
