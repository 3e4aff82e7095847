# Waiting for something to become true.

kubectl create configmap colours --from-literal=sky=blue

kubectl wait --for=jsonpath='{.data.sky}'=blue configmap/colours --timeout=30s

kubectl wait --for=jsonpath='{.data.sky}'=grey configmap/colours --timeout=1s

{ sleep 0.5; kubectl patch configmap colours --type merge --patch '{"data":{"sky":"grey"}}' >/dev/null; } & kubectl wait --for=jsonpath='{.data.sky}'=grey configmap/colours --timeout=30s; wait

{ sleep 0.5; kubectl delete configmap colours >/dev/null; } & kubectl wait --for=delete configmap/colours --timeout=30s >/dev/null && echo gone; wait

kubectl wait --for=create configmap/late --timeout=1s

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Say hello, agentRef: {name: nobody}}}
E

kubectl patch task t --subresource status --type merge --patch '{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'

kubectl wait --for=condition=Ready task/t --timeout=30s

kubectl wait --for=condition=Ready task/missing --timeout=30s
