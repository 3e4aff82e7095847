# What the server has.

kubectl api-resources --api-group kubeopencode.io

kubectl api-resources --api-group rbac.authorization.k8s.io --output wide

kubectl api-resources --api-group '' --output name | grep -xE 'configmaps|events|namespaces|persistentvolumeclaims|pods|secrets|serviceaccounts|services'

kubectl api-versions | grep -xE 'v1|apps/v1|coordination.k8s.io/v1|discovery.k8s.io/v1|kubeopencode.io/v1alpha1|rbac.authorization.k8s.io/v1'

kubectl explain task.spec.timeout

kubectl explain agent.spec.maxConcurrentTasks

kubectl explain task.spec.nowhere

kubectl explain nonsense

kubectl get --raw /healthz

kubectl get --raw /nowhere
