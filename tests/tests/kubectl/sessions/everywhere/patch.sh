# The three ways to patch, labels and annotations.

kubectl create --filename - <<E
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: one}, {name: b, image: one}]}}
E

kubectl patch pod p --patch '{"spec":{"containers":[{"name":"b","image":"two"}]}}'

kubectl get pod p --output jsonpath='{.spec.containers[*].image}{"\n"}'

kubectl patch pod p --patch '{"spec":{"containers":[{"name":"b","image":"two"}]}}'

kubectl patch pod p --type json --patch '[{"op":"test","path":"/spec/containers/0/image","value":"one"},{"op":"replace","path":"/spec/containers/0/image","value":"three"}]'

kubectl patch pod p --type json --patch '[{"op":"remove","path":"/spec/nowhere"}]'

kubectl create --filename - <<E
{apiVersion: kubeopencode.io/v1alpha1, kind: Task, metadata: {name: t}, spec: {description: Say hello, agentRef: {name: nobody}}}
E

kubectl patch task t --type merge --patch '{"spec":{"description":"Say bye","timeout":"5m"}}'

kubectl patch task t --type merge --patch '{"spec":{"timeout":"soon"}}'

kubectl patch task t --patch '{"spec":{"timeout":"5m"}}'

kubectl patch task t --subresource status --type merge --patch '{"status":{"phase":"Running"}}'

kubectl get task t --output jsonpath='{.spec.description} {.spec.timeout} {.status.phase} {.metadata.generation}{"\n"}'

kubectl patch task missing --type merge --patch '{}'

kubectl label task t team=payments urgent=yes

kubectl label task t team=checkout

kubectl label task t team=checkout urgent- --overwrite

kubectl label task t 'team=not a label'

kubectl annotate task t note='Look at this'

kubectl annotate task t note='And at that' --overwrite

kubectl get task t --output jsonpath='{.metadata.labels} {.metadata.annotations}{"\n"}'
