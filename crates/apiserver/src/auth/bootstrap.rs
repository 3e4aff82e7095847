//! The default objects of a server: namespaces, roles and bindings.
//!
//! The roles cover the kinds of this server. They are not aggregated.

/// YAML documents; each is created unless it exists, so that changes of the user are kept.
pub(crate) const DEFAULT_OBJECTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-public}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-node-lease}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cluster-admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- {verbs: ["*"], apiGroups: ["*"], resources: ["*"]}
- {verbs: ["*"], nonResourceURLs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:discovery", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- {verbs: [get], nonResourceURLs: [/api, /api/*, /apis, /apis/*, /healthz, /livez, /openapi, /openapi/*, /readyz, /version, /version/]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:public-info-viewer", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- {verbs: [get], nonResourceURLs: [/healthz, /livez, /readyz, /version, /version/]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- {verbs: [create], apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews, selfsubjectrulesreviews]}
- {verbs: [create], apiGroups: [authentication.k8s.io], resources: [selfsubjectreviews]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:auth-delegator", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- {verbs: [create], apiGroups: [authentication.k8s.io], resources: [tokenreviews]}
- {verbs: [create], apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: view, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- verbs: [get, list, watch]
  apiGroups: [""]
  resources: [configmaps, endpoints, events, namespaces, persistentvolumeclaims, persistentvolumeclaims/status, pods, pods/log, pods/status, serviceaccounts, services, services/status]
- verbs: [get, list, watch]
  apiGroups: [apps]
  resources: [deployments, deployments/scale, deployments/status, replicasets, replicasets/scale, replicasets/status]
- {verbs: [get, list, watch], apiGroups: [discovery.k8s.io], resources: [endpointslices]}
- {verbs: [get, list, watch], apiGroups: [events.k8s.io], resources: [events]}
- {verbs: [get, list, watch], apiGroups: [networking.k8s.io], resources: [networkpolicies]}
- {verbs: [get, list, watch], apiGroups: [policy], resources: [poddisruptionbudgets, poddisruptionbudgets/status]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: edit, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- verbs: [get, list, watch]
  apiGroups: [""]
  resources: [endpoints, events, namespaces, persistentvolumeclaims/status, pods/log, pods/status, services/status]
- verbs: [create, delete, deletecollection, get, list, patch, update, watch]
  apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims, pods, pods/attach, pods/exec, pods/portforward, secrets, serviceaccounts, services]
- {verbs: [create], apiGroups: [""], resources: [events, pods/eviction, serviceaccounts/token]}
- verbs: [create, delete, deletecollection, get, list, patch, update, watch]
  apiGroups: [apps]
  resources: [deployments, deployments/scale, replicasets, replicasets/scale]
- {verbs: [get, list, watch], apiGroups: [apps], resources: [deployments/status, replicasets/status]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [coordination.k8s.io], resources: [leases]}
- {verbs: [get, list, watch], apiGroups: [discovery.k8s.io], resources: [endpointslices]}
- {verbs: [get, list, watch], apiGroups: [events.k8s.io], resources: [events]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [networking.k8s.io], resources: [networkpolicies]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [policy], resources: [poddisruptionbudgets]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
- verbs: [get, list, watch]
  apiGroups: [""]
  resources: [endpoints, events, namespaces, persistentvolumeclaims/status, pods/log, pods/status, services/status]
- verbs: [create, delete, deletecollection, get, list, patch, update, watch]
  apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims, pods, pods/attach, pods/exec, pods/portforward, secrets, serviceaccounts, services]
- {verbs: [create], apiGroups: [""], resources: [events, pods/eviction, serviceaccounts/token]}
- verbs: [create, delete, deletecollection, get, list, patch, update, watch]
  apiGroups: [apps]
  resources: [deployments, deployments/scale, replicasets, replicasets/scale]
- {verbs: [get, list, watch], apiGroups: [apps], resources: [deployments/status, replicasets/status]}
- {verbs: [create], apiGroups: [authorization.k8s.io], resources: [localsubjectaccessreviews]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [coordination.k8s.io], resources: [leases]}
- {verbs: [get, list, watch], apiGroups: [discovery.k8s.io], resources: [endpointslices]}
- {verbs: [get, list, watch], apiGroups: [events.k8s.io], resources: [events]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [networking.k8s.io], resources: [networkpolicies]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [policy], resources: [poddisruptionbudgets]}
- {verbs: [create, delete, deletecollection, get, list, patch, update, watch], apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings, roles]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cluster-admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:masters"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:discovery", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:discovery"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:basic-user"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:public-info-viewer", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:public-info-viewer"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:unauthenticated"}
"#;
