/**
 * The bodies of the REST API. Made from docs/reference/openapi.json by `npm run generate`: change nothing here.
 */

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Agent: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "Agent";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["AgentSpec"];
        };
        /** @description The explanation of an Agent's state. */
        AgentExplanation: {
            /** @description The Agent. */
            agent: components["schemas"]["ObjectName"];
            /** @description Its stage. */
            phase?: components["schemas"]["AgentPhase"];
            /** @description Whether its server takes Tasks. */
            ready: boolean;
            /** @description Causes, from the visible state to the root cause. */
            chain: components["schemas"]["Cause"][];
            /** @description What waits for it. */
            queue: components["schemas"]["QueueState"];
            /** @description Tasks that run on it. */
            running: components["schemas"]["Ahead"][];
            /** @description Starts in the window of the quota. */
            quota?: components["schemas"]["QuotaState"];
            /** @description Its settings, each with its origin. */
            settings: components["schemas"]["Setting"][];
            /** @description Why the settings are not available. */
            settingsError?: string;
            /** @description Suggested steps. */
            next: string[];
        };
        AgentList: {
            agents: components["schemas"]["AgentResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        /** @description How busy an Agent is. */
        AgentLoad: {
            namespace: string;
            name: string;
            phase?: components["schemas"]["AgentPhase"];
            ready: boolean;
            slots: components["schemas"]["Slots"];
            queueLength: number;
        };
        /** @description Stages of an Agent. */
        AgentPhase: "Pending" | "Running" | "Failed" | "Suspended";
        /** @description An Agent. */
        AgentResponse: components["schemas"]["Identity"] & components["schemas"]["Settings"] & {
            /** @description Short description shown to users. */
            profile?: string;
            templateRef?: components["schemas"]["NameRef"];
            standby?: components["schemas"]["Standby"];
            share?: components["schemas"]["ShareSummary"];
            conditions: components["schemas"]["Condition"][];
            serverStatus: components["schemas"]["ServerStatus"];
            phase?: components["schemas"]["AgentPhase"];
            /** @description Whether the spec suspends the Agent. */
            suspend: boolean;
            /** @description What suspended the Agent, if it is suspended. */
            suspendedBy?: components["schemas"]["Suspender"];
            /** @description Running Tasks and their limit. */
            slots: components["schemas"]["Slots"];
            /** @description Tasks waiting for a slot. */
            queueLength: number;
            /** @description Main model, as provider/model. */
            resolvedModel?: string;
            tools?: components["schemas"]["ToolStatus"][];
            persistence?: components["schemas"]["Persistence"];
        };
        /** @description An AI agent that keeps running: a Deployment with an OpenCode server, and a Service in front of it. */
        AgentSpec: {
            /** @description Offer it to other agents by the A2A protocol. */
            a2a?: {
                /** @description Its agent card. */
                card?: {
                    /** @description Short description shown to users. */
                    description?: string;
                    /** @description Where its documentation is. */
                    documentationURL?: string;
                    /** @description Who offers it. */
                    provider?: {
                        /** @description Name of the organisation. */
                        organization: string;
                        /** @description Its page. */
                        url?: string;
                    };
                    /** @description Skills that it offers. */
                    skills?: {
                        /** @description Short description shown to users. */
                        description?: string;
                        /** @description Requests that it understands. */
                        examples?: string[];
                        /** @description Its id. */
                        id: string;
                        /** @description Its name. */
                        name: string;
                        /** @description Search terms. */
                        tags?: string[];
                    }[];
                    /** @description Version of the agent. */
                    version?: string;
                };
                /**
                 * @description Serve it at our API server.
                 * @default false
                 */
                enabled: boolean;
            };
            /** @description Image that copies OpenCode to `/tools`. Set alone, without `executorImage`, it is where the agent works. */
            agentImage?: string;
            /** @description From which namespaces it may be used as a tool. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description How its permission requests are answered. */
            approval?: components["schemas"]["Approval"];
            /** @description Image of the small client of Tasks on an Agent. */
            attachImage?: string;
            /** @description What its Tasks may use together. */
            budget?: components["schemas"]["Budget"];
            /** @description Certificate authorities of private servers. */
            caBundle?: components["schemas"]["CaBundle"];
            /** @description Command of Task Pods instead of ours. */
            command?: string[];
            /** @description OpenCode's own configuration, as a JSON text or as an object. Typed fields win over it. A text keeps the order of keys, which matters for permissions. */
            config?: unknown;
            /** @description Contexts of every Task of the agent. */
            contexts?: components["schemas"]["ContextItem"][];
            /** @description Secrets for the agent. */
            credentials?: {
                /** @description Name of the environment variable. */
                env?: string;
                /**
                 * Format: int32
                 * @description Permission bits of files; 0600 when unset.
                 */
                fileMode?: number;
                /** @description Where to put the file or directory. */
                mountPath?: string;
                /** @description Name, for people and messages. */
                name: string;
                /** @description The Secret. */
                secretRef: components["schemas"]["CredentialSecretRef"];
            }[];
            /** @description Image in which the agent works. */
            executorImage?: string;
            /** @description Build the executor image from a repository instead. */
            executorImageBuild?: components["schemas"]["ImageBuild"];
            /** @description Further ports of the server. */
            extraPorts?: components["schemas"]["ExtraPort"][];
            /** @description Framework inside, if it is not OpenCode. */
            framework?: string;
            /** @description Secrets for pulling images. */
            imagePullSecrets?: {
                /** @description Name of the referent. */
                name: string;
            }[];
            /** @description Instructions, in this order, before contexts. */
            instructionRefs?: components["schemas"]["ObjectRef"][];
            /**
             * Format: int32
             * @description At most this many of its Tasks run at once; 0 or unset means any number.
             */
            maxConcurrentTasks?: number;
            /** @description Model to use. */
            modelRef?: components["schemas"]["ObjectRef"];
            /** @description Which network connections its Pods may open. */
            networkPolicy?: components["schemas"]["NetworkPolicy"];
            /** @description What outlives its Pods. */
            persistence?: components["schemas"]["Persistence"];
            /** @description Plugins of OpenCode. */
            plugins?: components["schemas"]["PluginSpec"][];
            /** @description Scheduling, security, resources and extras of its Pods. */
            podSpec?: Record<string, unknown>;
            /**
             * Format: int32
             * @description Port of the OpenCode server.
             * @default 4096
             */
            port: number;
            /** @description Short description shown to users. */
            profile?: string;
            /** @description HTTP proxy of every container. */
            proxy?: components["schemas"]["Proxy"];
            /** @description At most this many of its Tasks start in a window of time. */
            quota?: components["schemas"]["Quota"];
            /**
             * @description When a changed Agent restarts.
             * @default Immediate
             * @enum {string}
             */
            rollout: "Immediate" | "WhenIdle";
            /** @description Protection of its OpenCode server. */
            server?: {
                /**
                 * @description Generated: a password is made and kept in a Secret. None: anyone who reaches the port has a shell.
                 * @default Generated
                 * @enum {string}
                 */
                auth: "Generated" | "None";
                /** @description A password of your own instead of a generated one. */
                passwordSecretRef?: components["schemas"]["SecretKeyRef"];
            };
            /** @description ServiceAccount of its Pods; `default` when unset. */
            serviceAccountName?: string;
            /** @description Share its terminal by a link. */
            share?: {
                /** @description Only from these addresses or ranges. */
                allowedIPs?: string[];
                /** @description The link opens. */
                enabled: boolean;
                /**
                 * Format: date-time
                 * @description It stops opening at this time.
                 */
                expiresAt?: string;
            };
            /** @description Skills of the agent. */
            skills?: components["schemas"]["SkillSource"][];
            /** @description Model for small work such as titles. */
            smallModelRef?: components["schemas"]["ObjectRef"];
            /** @description A run without any event for this long ends; 15m when unset. */
            stallTimeout?: string;
            /** @description Suspend the server when idle. */
            standby?: components["schemas"]["Standby"];
            /**
             * @description Scale to zero.
             * @default false
             */
            suspend: boolean;
            /** @description Template to take settings from. */
            templateRef?: components["schemas"]["LocalRef"];
            /** @description Tools that it may call. */
            tools?: components["schemas"]["ToolBinding"][];
            /** @description Where the files of its runs live. */
            workspace?: components["schemas"]["Workspace"];
            /** @description Directory in which the agent works; `/workspace` when unset. */
            workspaceDir?: string;
        };
        AgentTemplate: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "AgentTemplate";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["AgentTemplateSpec"];
        };
        AgentTemplateList: {
            agentTemplates: components["schemas"]["AgentTemplateResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        /** @description An AgentTemplate. */
        AgentTemplateResponse: components["schemas"]["Identity"] & components["schemas"]["Settings"] & {
            conditions: components["schemas"]["Condition"][];
            /** @description Main model, as provider/model: of modelRef, otherwise of config.model. */
            resolvedModel?: string;
            /** @description Number of Agents that use the template. */
            agentCount: number;
            /** @description Number of Tasks that use the template directly, finished ones included. */
            taskCount: number;
            /** @description Number of these Tasks that have not finished. */
            activeTaskCount: number;
        };
        /** @description Settings that many Agents share, and the blueprint of Tasks that run without an Agent. */
        AgentTemplateSpec: {
            /** @description Image that copies OpenCode to `/tools`. Set alone, without `executorImage`, it is where the agent works. */
            agentImage?: string;
            /** @description How its permission requests are answered. */
            approval?: components["schemas"]["Approval"];
            /** @description Files that are kept after the run. */
            artifacts?: components["schemas"]["Artifact"][];
            /** @description Image of the small client of Tasks on an Agent. */
            attachImage?: string;
            /** @description Certificate authorities of private servers. */
            caBundle?: components["schemas"]["CaBundle"];
            /** @description Files that later runs can reuse. */
            caches?: components["schemas"]["Cache"][];
            /** @description After the end of the agent: how long storing artefacts, outputs and caches, and publishing may take; 10m when unset. */
            collectTimeout?: string;
            /** @description Command of Task Pods instead of ours. */
            command?: string[];
            /** @description OpenCode's own configuration, as a JSON text or as an object. Typed fields win over it. A text keeps the order of keys, which matters for permissions. */
            config?: unknown;
            /** @description Contexts of every Task of the agent. */
            contexts?: components["schemas"]["ContextItem"][];
            /** @description Secrets for the agent. */
            credentials?: {
                /** @description Name of the environment variable. */
                env?: string;
                /**
                 * Format: int32
                 * @description Permission bits of files; 0600 when unset.
                 */
                fileMode?: number;
                /** @description Where to put the file or directory. */
                mountPath?: string;
                /** @description Name, for people and messages. */
                name: string;
                /** @description The Secret. */
                secretRef: components["schemas"]["CredentialSecretRef"];
            }[];
            /** @description Image in which the agent works. */
            executorImage?: string;
            /** @description Build the executor image from a repository instead. */
            executorImageBuild?: components["schemas"]["ImageBuild"];
            /** @description Further ports of the server. */
            extraPorts?: components["schemas"]["ExtraPort"][];
            /** @description Secrets for pulling images. */
            imagePullSecrets?: {
                /** @description Name of the referent. */
                name: string;
            }[];
            /** @description Instructions, in this order, before contexts. */
            instructionRefs?: components["schemas"]["ObjectRef"][];
            /**
             * Format: int32
             * @description At most this many of its Tasks run at once; 0 or unset means any number.
             */
            maxConcurrentTasks?: number;
            /** @description Model to use. */
            modelRef?: components["schemas"]["ObjectRef"];
            /** @description Which network connections its Pods may open. */
            networkPolicy?: components["schemas"]["NetworkPolicy"];
            /** @description Keys that the result must have. */
            outputs?: string[];
            /** @description Plugins of OpenCode. */
            plugins?: components["schemas"]["PluginSpec"][];
            /** @description Scheduling, security, resources and extras of its Pods. */
            podSpec?: Record<string, unknown>;
            /** @description HTTP proxy of every container. */
            proxy?: components["schemas"]["Proxy"];
            /** @description Push the changes of the run to a branch, and open a pull request. The agent never holds the credential. */
            publish?: {
                /** @description Author of that commit. */
                author?: {
                    /** @description Address. */
                    email: string;
                    /** @description Name. */
                    name: string;
                };
                /** @description Branch that the pull request is to change; the `ref` of the context when unset. */
                baseBranch?: string;
                /** @description Branch to push to; `agents/{{ task }}` when unset. */
                branch?: string;
                /** @description Name of the Git context whose changes are pushed; needed if there are several. */
                context?: string;
                /** @description Message of the commit with changes that the agent did not commit; the title of the Task when unset. */
                message?: string;
                /** @description Open a pull request, which GitLab calls a merge request. */
                pullRequest?: {
                    /** @description Base URL of the server's API; derived from the repository's URL when unset. */
                    apiURL?: string;
                    /** @description Text; the agent's final answer when unset. */
                    body?: string;
                    /**
                     * @description Open it as a draft.
                     * @default false
                     */
                    draft: boolean;
                    /** @description Labels to add. */
                    labels?: string[];
                    /**
                     * @description The software of a Git server.
                     * @enum {string}
                     */
                    provider?: "GitHub" | "GitLab" | "Gitea";
                    /** @description Title; the subject of the newest commit when unset. */
                    title?: string;
                };
                /** @description Secret with `username` and `password`, or with `ssh-privatekey` and `ssh-known-hosts`. A pull request needs a token as `password`. */
                secretRef: components["schemas"]["LocalRef"];
                /**
                 * @description After which end the changes are pushed.
                 * @default OnSuccess
                 * @enum {string}
                 */
                when: "OnSuccess" | "Always";
            };
            /** @description At most this many of its Tasks start in a window of time. */
            quota?: components["schemas"]["Quota"];
            /** @description Whether a failed run is tried again. */
            retry?: components["schemas"]["Retry"];
            /** @description ServiceAccount of its Pods; `default` when unset. */
            serviceAccountName?: string;
            /** @description Containers that run beside the task, in its Pod, and are reached at localhost. */
            services?: components["schemas"]["SideService"][];
            /** @description Skills of the agent. */
            skills?: components["schemas"]["SkillSource"][];
            /** @description Model for small work such as titles. */
            smallModelRef?: components["schemas"]["ObjectRef"];
            /** @description A run without any event for this long ends; 15m when unset. */
            stallTimeout?: string;
            /** @description From admission to the start of the task container; 5m when unset. */
            startupTimeout?: string;
            /** @description Tools that it may call. */
            tools?: components["schemas"]["ToolBinding"][];
            /** @description Prepared Pods that wait for Tasks. */
            warmPool?: {
                /** @description Replace a Pod that waited for this long; 1h when unset. */
                maxAge?: string;
                /**
                 * Format: int32
                 * @description How many Pods wait.
                 */
                size: number;
            };
            /** @description Where the files of its runs live. */
            workspace?: components["schemas"]["Workspace"];
            /** @description Directory in which the agent works; `/workspace` when unset. */
            workspaceDir?: string;
        };
        AgentTool: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "AgentTool";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["AgentToolSpec"];
        };
        AgentToolList: {
            items: components["schemas"]["AgentToolResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        AgentToolResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "AgentTool";
            spec?: components["schemas"]["AgentToolSpec"];
        };
        /** @description An HTTP API with an OpenAPI document, offered to agents as tools. */
        AgentToolSpec: {
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description How calls are authenticated. */
            auth?: {
                /** @description Header that carries an API key; `X-API-Key` when unset. */
                header?: string;
                /** @description Secret with `key`, `token`, `username` and `password`, or `clientId` and `clientSecret`. */
                secretRef: components["schemas"]["LocalRef"];
                /** @description Where OAuth 2 tokens come from. */
                tokenURL?: string;
                /**
                 * @description The scheme.
                 * @enum {string}
                 */
                type: "ApiKey" | "Bearer" | "Basic" | "OAuth2ClientCredentials";
            };
            /** @description Description of the API; agents read it. */
            description?: string;
            /** @description The API. */
            openApi: {
                /** @description Headers to send. */
                headers?: {
                    [key: string]: string;
                };
                /** @description Its OpenAPI document. */
                openApiSchema: {
                    /** @description At the API itself. */
                    endpointPath?: string;
                    /** @description Here. */
                    value?: Record<string, unknown>;
                    /** @description In a ConfigMap. */
                    valueFrom?: components["schemas"]["ConfigMapKeyRef"];
                };
                /** @description Service in front of the API. */
                serviceRef?: components["schemas"]["ServiceRef"];
                /**
                 * Format: int32
                 * @description Give up a call after this many seconds.
                 * @default 30
                 */
                timeoutSeconds: number;
                /** @description Address of the API. */
                url?: string;
            };
            /** @description Only these operations, by operationId; all of them when unset. */
            operations?: string[];
        };
        /** @description Agents in numbers. */
        AgentTotals: {
            total: number;
            ready: number;
            suspended: number;
            items: components["schemas"]["AgentLoad"][];
        };
        AgentWorkflow: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "AgentWorkflow";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["AgentWorkflowSpec"];
        };
        AgentWorkflowList: {
            items: components["schemas"]["AgentWorkflowResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        AgentWorkflowResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "AgentWorkflow";
            spec?: components["schemas"]["AgentWorkflowSpec"];
        };
        /** @description Steps of agents, Tasks, containers and HTTP calls as a graph without cycles. */
        AgentWorkflowSpec: {
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description Short description shown to users. */
            description?: string;
            /**
             * @description Who runs it. Auto: Argo Workflows if the cluster has it, otherwise we do.
             * @default Auto
             * @enum {string}
             */
            engine: "Auto" | "Argo" | "Native";
            /** @description Values that a run gives back. */
            outputs?: {
                /** @description Its name. */
                name: string;
                /** @description The value, such as `{{ steps.review.output }}`. */
                value: string;
            }[];
            /** @description Values that a run takes. */
            params?: {
                /** @description What it is. */
                description?: string;
                /** @description Its name. */
                name: string;
                /** @description Its value if the run gives none. Without it the run must give one. */
                value?: string;
            }[];
            /** @description ServiceAccount of the run's Pods. */
            serviceAccountName?: string;
            /** @description The steps. */
            steps: components["schemas"]["Step"][];
            /** @description Stop a run after this time. */
            timeout?: string;
        };
        /** @description A Task that runs or goes before. */
        Ahead: {
            /** @description Its name. */
            name: string;
            /** @description Its stage. */
            phase: components["schemas"]["TaskPhase"];
            /**
             * Format: int32
             * @description Higher goes first.
             */
            priority: number;
            /**
             * Format: date-time
             * @description When it was created.
             */
            createdAt?: string;
            /**
             * Format: date-time
             * @description When its work began.
             */
            startTime?: string;
        };
        /** @description The answers, in order. */
        Allowed: {
            allowed: boolean[];
        };
        /** @description From which namespaces an object may be referred to. */
        AllowedNamespaces: {
            /**
             * @description Same: only its own namespace. All: every namespace. Selector: namespaces whose labels match.
             * @default Same
             * @enum {string}
             */
            from: "Same" | "All" | "Selector";
            /** @description Labels of the namespaces that may refer to it. */
            selector?: components["schemas"]["LabelSelector"];
        };
        /**
         * @description The program with which a person answered, as it named itself.
         * @enum {string}
         */
        AnsweredVia: "Page" | "CommandLine" | "Api";
        /** @description How permission requests of the agent are answered. */
        Approval: {
            /**
             * @description Never: no person is asked, the agent's own rules decide. Ask: actions with the rule "ask" wait for a person. Always: every tool call waits for a person.
             * @default Never
             * @enum {string}
             */
            mode: "Never" | "Ask" | "Always";
            /** @description An unanswered request is rejected after this time; 1h when unset. */
            timeout?: string;
        };
        /** @description An answer to a permission request. Parts of the request that look like a key are left out. */
        ApprovalResponse: {
            /**
             * Format: int64
             * @description The run in which the agent asked.
             */
            epoch: number;
            /** @description Id of the request. */
            request: string;
            /** @description Which permission, such as bash. */
            permission: string;
            patterns: string[];
            reply: components["schemas"]["Reply"];
            /** @description Sent to the agent with a rejection. */
            message?: string;
            /** @description User name. */
            by: string;
            via: components["schemas"]["AnsweredVia"];
            /** Format: date-time */
            at: string;
            /** @description Whether the agent received the answer; unset if that is not known. */
            accepted?: boolean;
        };
        /** @description The audit of approvals: answers to permission requests. */
        Approvals: {
            /** @description Whether answers are recorded: the server has a store. */
            recorded: boolean;
            /** @description The newest first. */
            approvals: components["schemas"]["ApprovalResponse"][];
        };
        /** @description Files that are kept after the run. */
        Artifact: {
            /** @description Delete them after this time; kept as long as the Task when unset. */
            expireAfter?: string;
            /** @description Name of the artefact. */
            name: string;
            /**
             * @description Do not fail the Task if nothing matches.
             * @default false
             */
            optional: boolean;
            /** @description Paths or patterns, relative to the workspace. */
            paths: string[];
            /**
             * @description After which end they are kept.
             * @default OnSuccess
             * @enum {string}
             */
            when: "OnSuccess" | "OnFailure" | "Always";
        };
        /** @description A file, a symbolic link or an empty directory. */
        ArtifactFile: {
            /** @description Path in the artefact, for people: bytes that are not UTF-8 are replaced. */
            name: string;
            /** @description The same for requests: the name, or `/hex/` and its bytes in hexadecimal if they are not UTF-8. */
            path: string;
            kind: components["schemas"]["FileKind"];
            /**
             * Format: int64
             * @description In bytes; of files.
             */
            size?: number;
            /** @description SHA-256; of files. */
            digest?: string;
            /** @description Of files. */
            executable?: boolean;
            /** @description Where a link leads. */
            target?: string;
        };
        /** @description A page of the files of an artefact. */
        ArtifactFiles: {
            /** @description Sorted by the bytes of their names. */
            files: components["schemas"]["ArtifactFile"][];
            /** @description Number of all entries with the prefix. */
            total: number;
            /** @description The value of `after` for the next page; unset on the last one. */
            next?: string;
        };
        /** @description Files that a run left. */
        ArtifactResponse: {
            /**
             * Format: int64
             * @description The run that left it.
             */
            epoch: number;
            name: string;
            /**
             * Format: int64
             * @description Size of the archive.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Number of its files.
             */
            files: number;
            /** @description SHA-256 of the archive. */
            digest: string;
            /** Format: date-time */
            storedAt: string;
            /**
             * Format: date-time
             * @description Time of removal.
             */
            expiresAt?: string;
            /** @description Set once the files are removed. */
            expired?: components["schemas"]["Expired"];
        };
        /** @description The artefacts of a Task. */
        Artifacts: {
            /** @description By name. */
            artifacts: components["schemas"]["ArtifactResponse"][];
        };
        /** @description Whether an asset is there. */
        AssetPhase: "Ready" | "Unavailable";
        /**
         * @description How the caller was authenticated.
         * @enum {string}
         */
        AuthenticatedBy: "bearer" | "session" | "anonymous";
        /** @description How to log in here. */
        AuthenticationInfo: {
            /** @description Reading needs no login. */
            anonymous: boolean;
            /** @description Neither does writing. */
            anonymousWrite: boolean;
            /** @description The identity provider, if there is one. */
            oidc?: components["schemas"]["ProviderInfo"];
        };
        /** @description One hour or day. */
        Bucket: {
            /** Format: date-time */
            start: string;
            /** Format: int64 */
            tokens: number;
            /** @description Decimal number. */
            cost: string;
            completed: number;
            failed: number;
            stopped: number;
        };
        /** @description Limits of tokens and cost of a run, or of an Agent within a window. Reaching a limit stops the run. */
        Budget: {
            /** @description Cost in the currency of the models' prices, as a decimal number such as "2.50". */
            maxCost?: string;
            /**
             * Format: int64
             * @description Tokens, input and output together, without those from the provider's cache.
             */
            maxTokens?: number;
            /** @description Count over this window, all Tasks of the Agent together; for each run when unset. */
            window?: string;
        };
        /** @description Certificate authorities of private servers. OpenCode, git and npm trust them besides the system's. */
        CaBundle: {
            /** @description From a ConfigMap; key `ca-bundle.crt` when unset. */
            configMapRef?: {
                /** @description Key in it. */
                key?: string;
                /** @description Name of the ConfigMap or Secret. */
                name: string;
            };
            /** @description From a Secret; key `ca.crt` when unset. */
            secretRef?: {
                /** @description Key in it. */
                key?: string;
                /** @description Name of the ConfigMap or Secret. */
                name: string;
            };
        };
        /** @description Files that later runs can reuse. Trouble with a cache never fails a Task. */
        Cache: {
            /** @description Key of an exact hit; `{{ hash "go.sum" }}` is replaced by the hash of files. */
            key: string;
            /** @description Name of the cache. */
            name: string;
            /** @description Paths to keep, relative to the workspace. */
            paths: string[];
            /**
             * @description Restore, save, or both.
             * @default PullPush
             * @enum {string}
             */
            policy: "PullPush" | "Pull" | "Push";
            /** @description Key prefixes to fall back to, best first. */
            restoreKeys?: string[];
        };
        /** @description What was found in a cache. */
        CacheHit: "Exact" | "Prefix" | "Miss";
        /** @description A cache that a run used. */
        CacheStatus: {
            /** @description Name of the cache. */
            name: string;
            /** @description What was found: Exact, Prefix (of one of the restoreKeys) or Miss; unset if the cache was not to be restored. */
            hit?: components["schemas"]["CacheHit"];
            /**
             * Format: int64
             * @description Bytes that were restored.
             */
            bytes?: number;
            /**
             * Format: int64
             * @description Time that restoring took, in seconds.
             */
            seconds?: number;
            /** @description The cache was saved after the run. */
            saved?: boolean;
        };
        /** @description One link of a chain of causes. */
        Cause: {
            /** @description How bad it is. */
            level: components["schemas"]["Level"];
            /** @description Machine-readable reason. */
            reason?: string;
            /** @description The same as a sentence. */
            message: string;
            /** @description What it is about. */
            object?: components["schemas"]["ObjectName"];
            /**
             * Format: date-time
             * @description Since when.
             */
            since?: string;
        };
        /** @description A commit of a run. */
        ChangeCommit: {
            /** @description Full id. */
            id: string;
            /** @description First line of the message. */
            subject: string;
        };
        /**
         * @description How a file changed.
         * @enum {string}
         */
        ChangeStatus: "added" | "modified" | "deleted" | "renamed";
        ChangedCronTask: components["schemas"]["CronTask"] | {
            /** @description When: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly. */
            schedule?: string;
            /** @description IANA name of the time zone, such as Europe/Berlin; UTC when unset. */
            timeZone?: string;
            /**
             * @description What to do while a Task of it still runs.
             * @default Forbid
             * @enum {string}
             */
            concurrencyPolicy: "Allow" | "Forbid" | "Replace";
            /** @description Create no further Tasks. */
            suspend?: boolean;
            /**
             * Format: int64
             * @description Skip a time that was missed by more than this many seconds.
             */
            startingDeadlineSeconds?: number;
            /**
             * Format: int32
             * @description Create no further Task while this many exist, finished ones included.
             * @default 10
             */
            maxRetainedTasks: number;
            /** @description Description of the work; the agent gets it as its prompt and as `task.md`. */
            description?: string;
        };
        /** @description A changed file. */
        ChangedFile: {
            /** @description Path in the workspace. */
            path: string;
            /** @description Path before a rename. */
            oldPath?: string;
            status: components["schemas"]["ChangeStatus"];
            /**
             * Format: int64
             * @description Lines added.
             */
            insertions: number;
            /**
             * Format: int64
             * @description Lines removed.
             */
            deletions: number;
            /** @description Binary, or too large for a patch. */
            binary: boolean;
            /** @description Unified diff. */
            patch: string;
            /** @description The diff is shortened or left out, because it is too long. */
            cut: boolean;
        };
        /** @description Changes of a Secret; keys that are not named stay as they are. The values are in no debug output. */
        ChangedSecret: {
            /** @description New values by key; never returned. */
            data?: {
                [key: string]: string;
            };
            /** @description Keys to remove. */
            remove?: string[];
        };
        /** @description May I do this? */
        Check: {
            verb: string;
            resource: string;
            /** @description kubeopencode.io when unset. */
            group?: string;
            namespace?: string;
            name?: string;
            subresource?: string;
        };
        /** @description Questions about rights. */
        Checks: {
            checks: components["schemas"]["Check"][];
        };
        /** @description When finished Tasks are deleted. */
        Cleanup: {
            /**
             * Format: int32
             * @description When a namespace holds more than this many finished ones, oldest first.
             */
            maxRetainedTasks?: number;
            /**
             * Format: int32
             * @description This many seconds after they ended.
             */
            ttlSecondsAfterFinished?: number;
        };
        /**
         * @description What to do when it is time and a Task still runs.
         * @enum {string}
         */
        ConcurrencyPolicy: "Allow" | "Forbid" | "Replace";
        /** @description One condition of an object. */
        Condition: {
            /** @description Type of the condition. */
            type: string;
            /** @enum {string} */
            status: "True" | "False" | "Unknown";
            /** @description Machine-readable reason. */
            reason: string;
            /** @description Message for people. */
            message: string;
            /**
             * Format: date-time
             * @description Time of the last change of the status.
             */
            lastTransitionTime?: string;
        };
        /** @description Text from a ConfigMap of the same namespace. */
        ConfigMapContext: {
            /** @description One key; all keys when unset. */
            key?: string;
            /** @description Name of the ConfigMap. */
            name: string;
            /** @description Optional: continue if the ConfigMap or the key does not exist. */
            optional?: boolean;
        };
        /** @description One key of a ConfigMap in the same namespace. */
        ConfigMapKeyRef: {
            /** @description Key in the ConfigMap. */
            key: string;
            /** @description Name of the ConfigMap. */
            name: string;
        };
        /** @description The settings of the whole platform. */
        ConfigResponse: components["schemas"]["Identity"] & {
            systemImage?: components["schemas"]["SystemImage"];
            cleanup?: components["schemas"]["Cleanup"];
            proxy?: components["schemas"]["Proxy"];
            clusterDomain?: string;
            observability?: components["schemas"]["Observability"];
            imageBuild?: components["schemas"]["ImageBuilding"];
            defaults?: components["schemas"]["Defaults"];
            conditions: components["schemas"]["Condition"][];
        };
        /** @description One container of a Task's Pod. */
        ContainerState: {
            /** @description Its name. */
            name: string;
            /** @description Whether this is an init container. */
            init: boolean;
            /** @enum {string} */
            state: "waiting" | "running" | "terminated";
            /**
             * Format: int32
             * @description Exit code, if terminated.
             */
            exitCode?: number;
        };
        /** @description A container that runs to its end. It leaves its output in `/tmp/result`. */
        ContainerStep: {
            /** @description Arguments of the command. */
            args?: string[];
            /** @description Its command. */
            command?: string[];
            /** @description Its environment. */
            env?: components["schemas"]["EnvVar"][];
            /** @description Its image. */
            image: string;
            /** @description Its resources. */
            resources?: components["schemas"]["ResourceRequirements"];
            /** @description Its working directory. */
            workingDir?: string;
        };
        /** @description The containers of a Task's Pod. */
        Containers: {
            containers: components["schemas"]["ContainerState"][];
        };
        /** @description One piece of context for the agent: a text, a ConfigMap, a Git repository, a URL, or information about the platform it runs on. */
        ContextItem: {
            /** @description The ConfigMap, when type is ConfigMap. */
            configMap?: components["schemas"]["ConfigMapContext"];
            /** @description Short description shown to users. */
            description?: string;
            /**
             * Format: int32
             * @description Permission bits of the file, such as 0755 (octal) or 493.
             */
            fileMode?: number;
            /** @description The repository, when type is Git. */
            git?: components["schemas"]["GitContext"];
            /** @description Where to put it. A relative path starts at the workspace. Paths with `..` are refused. */
            mountPath?: string;
            /** @description Name for logs, messages and the tag around its text. */
            name?: string;
            /** @description Optional: continue if unavailable. */
            optional?: boolean;
            /** @description Nothing to set: the text is generated. */
            runtime?: Record<string, unknown>;
            /** @description The text, when type is Text. */
            text?: string;
            /** @description What kind of context it is; the field of the same name holds it. */
            type: components["schemas"]["ContextType"];
            /** @description The document, when type is URL. */
            url?: components["schemas"]["UrlContext"];
        };
        /** @description A context without the content. */
        ContextSummary: {
            name?: string;
            description?: string;
            type: components["schemas"]["ContextType"];
            mountPath?: string;
            sync?: components["schemas"]["GitSync"];
        };
        /**
         * @description The types of context.
         * @enum {string}
         */
        ContextType: "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
        /** @description A Secret that an agent gets, by name. */
        Credential: {
            name: string;
            secretRef: components["schemas"]["CredentialSecretRef"];
            mountPath?: string;
            env?: string;
        };
        /** @description A Secret or one key of it. */
        CredentialSecretRef: {
            /** @description One key; all of them when unset. */
            key?: string;
            /** @description Name of the Secret. */
            name: string;
        };
        CronTask: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "CronTask";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["CronTaskSpec"];
        };
        /** @description The explanation of a CronTask's state. */
        CronTaskExplanation: {
            /** @description The CronTask. */
            cronTask: components["schemas"]["ObjectName"];
            /** @description Whether no run starts until its user acts. */
            blocked: boolean;
            /** @description Whether its user suspended it. */
            suspended: boolean;
            /**
             * Format: date-time
             * @description When it is due next; unset if no run is to come.
             */
            nextScheduleTime?: string;
            /** @description Causes, from the visible state to the root cause. */
            chain: components["schemas"]["Cause"][];
            /** @description Suggested steps. */
            next: string[];
        };
        CronTaskList: {
            cronTasks: components["schemas"]["CronTaskResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A CronTask. */
        CronTaskResponse: components["schemas"]["Identity"] & {
            schedule: string;
            timeZone?: string;
            concurrencyPolicy: components["schemas"]["ConcurrencyPolicy"];
            suspend: boolean;
            /** Format: int32 */
            maxRetainedTasks: number;
            /** Format: int64 */
            startingDeadlineSeconds?: number;
            /**
             * Format: int32
             * @description Unfinished Tasks of the CronTask.
             */
            active: number;
            /** @description Their names. */
            activeTasks: string[];
            /** Format: date-time */
            lastScheduleTime?: string;
            /** Format: date-time */
            lastSuccessfulTime?: string;
            /**
             * Format: date-time
             * @description Unset while no run is to come: the CronTask is suspended, blocked or invalid.
             */
            nextScheduleTime?: string;
            /** @description Why no run starts, by the schedule or by a trigger, and how to change that. Unset while runs start. */
            blocked?: string;
            /** Format: int64 */
            totalExecutions: number;
            taskTemplate: components["schemas"]["CronTaskTemplate"];
            conditions: components["schemas"]["Condition"][];
        };
        /** @description Creates Tasks by the clock, as a CronJob creates Jobs. */
        CronTaskSpec: {
            /**
             * @description What to do while a Task of it still runs.
             * @default Forbid
             * @enum {string}
             */
            concurrencyPolicy: "Allow" | "Forbid" | "Replace";
            /**
             * Format: int32
             * @description Create no further Task while this many exist, finished ones included.
             * @default 10
             */
            maxRetainedTasks: number;
            /** @description When: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly. */
            schedule: string;
            /**
             * Format: int64
             * @description Skip a time that was missed by more than this many seconds.
             */
            startingDeadlineSeconds?: number;
            /** @description Create no further Tasks. */
            suspend?: boolean;
            /** @description The Task to create. */
            taskTemplate: components["schemas"]["TaskTemplate"];
            /** @description IANA name of the time zone, such as Europe/Berlin; UTC when unset. */
            timeZone?: string;
        };
        /** @description The Task that a CronTask creates. */
        CronTaskTemplate: {
            description?: string;
            agentRef?: components["schemas"]["NameRef"];
            templateRef?: components["schemas"]["NameRef"];
            timeout?: string;
            contexts?: components["schemas"]["ContextItem"][];
        };
        /** @description CronTasks in numbers. */
        CronTotals: {
            total: number;
            suspended: number;
            /** @description CronTasks that create no Tasks until a person acts. */
            blocked: number;
            /** @description The five that are due next. */
            next: components["schemas"]["Due"][];
        };
        /** @description Settings of Tasks and Agents that set none themselves. */
        Defaults: {
            /** @description Image that copies OpenCode to `/tools`. */
            agentImage?: string;
            /** @description Image of the small client of Tasks on an Agent. */
            attachImage?: string;
            /** @description What one run may use, or with a window the Tasks of an Agent or template together. */
            budget?: components["schemas"]["Budget"];
            /** @description From the end of the agent until everything that the run keeps is stored; 10m when unset. */
            collectTimeout?: string;
            /** @description Image in which agents work. */
            executorImage?: string;
            /** @description Secrets for pulling images, in the namespace of each Pod. */
            imagePullSecrets?: {
                /** @description Name of the referent. */
                name: string;
            }[];
            /** @description Which network connections Pods may open. */
            networkPolicy?: components["schemas"]["NetworkPolicy"];
            /** @description How long a Task waits for a missing reference; 60s when unset. */
            referenceGracePeriod?: string;
            /** @description Whether failed runs are tried again. */
            retry?: components["schemas"]["Retry"];
            /** @description ServiceAccount of Pods; `default` when unset. */
            serviceAccountName?: string;
            /** @description A run without any event for this long ends; 15m when unset. */
            stallTimeout?: string;
            /** @description From admission to the start of the task container; 5m when unset. */
            startupTimeout?: string;
            /** @description Where the files of runs live. */
            workspace?: components["schemas"]["Workspace"];
        };
        /** @description A Task that must end before this one starts. */
        Dependency: {
            /**
             * @description Required outcome.
             * @default Succeeded
             * @enum {string}
             */
            condition: "Succeeded" | "Failed" | "Finished";
            /** @description Name of the Task, in the same namespace. */
            task: string;
        };
        /**
         * @description Required outcome of a dependency.
         * @enum {string}
         */
        DependencyCondition: "Succeeded" | "Failed" | "Finished";
        /** @description The state of a dependency. */
        DependencyState: {
            /** @description The other Task. */
            task: string;
            /** @description Which end is good enough. */
            condition: components["schemas"]["DependencyCondition"];
            /** @description Its stage, if it exists. */
            phase?: components["schemas"]["TaskPhase"];
            /** @description Whether it is good enough. */
            met: boolean;
            /** @description Whether it exists. */
            exists: boolean;
        };
        /** @description A CronTask that is due. */
        Due: {
            namespace: string;
            name: string;
            /** Format: date-time */
            at: string;
        };
        /** @description One object is used by another. */
        Edge: {
            from: string;
            to: string;
            /** @description Field that refers. */
            label: string;
        };
        /** @description EnvVar represents an environment variable present in a Container. */
        EnvVar: {
            /** @description Name of the environment variable. Must be a C_IDENTIFIER. */
            name: string;
            /** @description Variable references $(VAR_NAME) are expanded using the previously defined environment variables in the container and any service environment variables. */
            value?: string;
            /** @description Source for the environment variable's value. Cannot be used if value is not empty. */
            valueFrom?: {
                /** @description Selects a key of a ConfigMap. */
                configMapKeyRef?: {
                    /** @description The key to select. */
                    key: string;
                    /** @description Name of the referent. */
                    name: string;
                    /** @description Specify whether the ConfigMap or its key must be defined */
                    optional?: boolean;
                };
                /** @description Selects a field of the pod: supports metadata.name, metadata.namespace, `metadata.labels['<KEY>']`, `metadata.annotations['<KEY>']`, spec.nodeName, spec.serviceAccountName, status.hostIP, status.podIP, status.podIPs. */
                fieldRef?: {
                    /** @description Version of the schema the FieldPath is written in terms of, defaults to "v1". */
                    apiVersion?: string;
                    /** @description Path of the field to select in the specified API version. */
                    fieldPath: string;
                };
                /** @description Selects a resource of the container: only resources limits and requests (limits.cpu, limits.memory, limits.ephemeral-storage, requests.cpu, requests.memory and requests.ephemeral-storage) are currently supported. */
                resourceFieldRef?: {
                    /** @description Container name: required for volumes, optional for env vars */
                    containerName?: string;
                    /** @description Specifies the output format of the exposed resources, defaults to "1" */
                    divisor?: number | string;
                    /** @description Required: resource to select */
                    resource: string;
                };
                /** @description Selects a key of a secret in the pod's namespace */
                secretKeyRef?: {
                    /** @description The key of the secret to select from. Must be a valid secret key. */
                    key: string;
                    /** @description Name of the referent. */
                    name: string;
                    /** @description Specify whether the Secret or its key must be defined */
                    optional?: boolean;
                };
            };
        };
        /** @description An error, for people and programs. */
        ErrorBody: {
            /** @description Machine-readable reason. */
            error: components["schemas"]["ErrorReason"];
            /** @description Message for people. */
            message: string;
            /**
             * Format: int32
             * @description HTTP status code.
             */
            code: number;
            /** @description Path of the first invalid field. */
            field?: string;
            /** @description All invalid fields, if there is more than one. */
            fields?: components["schemas"]["FieldError"][];
        };
        /**
         * @description Why a request failed, for programs.
         * @enum {string}
         */
        ErrorReason: "AlreadyExists" | "BadGateway" | "BadRequest" | "Conflict" | "Forbidden" | "Internal" | "Invalid" | "MethodNotAllowed" | "NotFound" | "TooLarge" | "TooManyRequests" | "Unauthorized" | "Unavailable" | "UnsupportedMediaType";
        /** @description When and why the files of an artefact were removed. */
        Expired: {
            /** Format: date-time */
            at: string;
            cause: components["schemas"]["ExpiredCause"];
            /** @description The same as a sentence. */
            message: string;
        };
        /**
         * @description Why the files of an artefact were removed.
         * @enum {string}
         */
        ExpiredCause: "Due" | "Age" | "Space" | "Count";
        /** @description A further port of an Agent's server. */
        ExtraPort: {
            /** @description Name of the port. */
            name: string;
            /**
             * Format: int32
             * @description Number of the port.
             */
            port: number;
            /**
             * @description Protocol of the port.
             * @default TCP
             * @enum {string}
             */
            protocol: "TCP" | "UDP";
            /**
             * Format: int32
             * @description Port of the container, if it differs.
             */
            targetPort?: number;
        };
        /** @description An invalid field. */
        FieldError: {
            /** @description Path, such as `spec.contexts[0].text`. */
            field: string;
            /** @description Why the field is invalid. */
            message: string;
        };
        /** @enum {string} */
        FileKind: "file" | "link" | "directory";
        /** @description Whether an asset is there. */
        Found: {
            phase?: components["schemas"]["AssetPhase"];
            /** Format: date-time */
            lastChecked?: string;
            /** @description Why the package is not available. */
            message?: string;
        };
        /** @description Files from a Git repository. */
        GitContext: {
            /**
             * Format: int32
             * @description How many commits to fetch; 0 fetches the whole history.
             * @default 1
             */
            depth: number;
            /** @description Path inside the repository; the whole of it when unset. */
            path?: string;
            /**
             * @description Fetch submodules too.
             * @default false
             */
            recurseSubmodules: boolean;
            /**
             * @description Branch, tag or commit.
             * @default HEAD
             */
            ref: string;
            /** @description URL of the repository: https, http, ssh or `git@host:path`. */
            repository: string;
            /** @description Secret with `username` and `password`, or `ssh-privatekey` and `ssh-known-hosts`. */
            secretRef?: components["schemas"]["LocalRef"];
            /** @description Keep it up to date while an Agent runs. */
            sync?: components["schemas"]["GitSync"];
        };
        /** @description Where skills come from. */
        GitSkillSource: {
            /**
             * Format: int32
             * @description How many commits to fetch; 0 fetches the whole history.
             * @default 1
             */
            depth: number;
            /** @description Only these skills; all of them when unset. */
            names?: string[];
            /** @description Directory with the skills. */
            path?: string;
            /**
             * @description Fetch submodules too.
             * @default false
             */
            recurseSubmodules: boolean;
            /**
             * @description Branch, tag or commit.
             * @default HEAD
             */
            ref: string;
            /** @description URL of the repository. */
            repository: string;
            /** @description Secret with credentials, as for a Git context. */
            secretRef?: components["schemas"]["LocalRef"];
        };
        /** @description How an Agent follows a repository. */
        GitSync: {
            /**
             * @description Follow the repository.
             * @default false
             */
            enabled: boolean;
            /** @description Polling interval; 5m when unset. */
            interval?: string;
            /**
             * @description What to do with a new commit.
             * @default HotReload
             * @enum {string}
             */
            policy: "HotReload" | "Rollout";
        };
        /** @description A repository that an Agent follows. */
        GitSyncStatus: {
            /** @description Name of the context. */
            name: string;
            /** @description Commit that was seen. */
            commitHash?: string;
            /** @description When it was seen. */
            lastSynced?: components["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.Time"];
        };
        /** @description Objects and their references. */
        Graph: {
            nodes: components["schemas"]["Node"][];
            /** @description From the used object to its user. */
            edges: components["schemas"]["Edge"][];
            /** @description Whether there is more than is shown. */
            truncated: boolean;
        };
        /** @description An HTTP header whose value comes from a Secret. */
        HeaderFromSecret: {
            /** @description Name of the header. */
            name: string;
            /** @description Where its value is. */
            secretKeyRef: components["schemas"]["SecretKeyRef"];
        };
        /** @description Liveness of the server. */
        Health: {
            status: string;
            version: string;
            uptime: string;
        };
        /** @description Metadata of an object. */
        Identity: {
            /** @description Its name. */
            name: string;
            /** @description Its namespace. */
            namespace?: string;
            /** @description Its UID. */
            uid?: string;
            /** @description Version of the object. Sent back as If-Match, it prevents lost updates. */
            resourceVersion?: string;
            /**
             * Format: int64
             * @description Number of changes of the spec.
             */
            generation?: number;
            /**
             * Format: date-time
             * @description Time of creation.
             */
            createdAt?: string;
            /**
             * Format: date-time
             * @description Time at which deletion was requested.
             */
            deletionTimestamp?: string;
            /** @description Its labels. */
            labels?: {
                [key: string]: string;
            };
        };
        /** @description An image of the catalogue. */
        Image: components["schemas"]["Found"] & {
            name: string;
            image: string;
            metadata?: components["schemas"]["ImageMetadata"];
            digest?: string;
        };
        /** @description An image built from a repository at an exact commit, used by digest. `spec.imageBuild` of the KubeOpenCodeConfig names the registry. */
        ImageBuild: {
            /** @description Arguments of the build. They are no place for secrets: they are visible in the Pod and in the image. */
            buildArgs?: {
                [key: string]: string;
            };
            /** @description Directory of the build context; the whole repository when unset. */
            context?: string;
            /** @description Path of the Dockerfile in the repository; `Dockerfile` when unset. */
            dockerfile?: string;
            /** @description Branch, tag or full commit; the default branch when unset. A Task looks the commit up when it starts, an Agent when `executorImageBuild` changes. */
            ref?: string;
            /** @description URL of the repository. */
            repository: string;
            /** @description Secret with credentials of the repository: `username` and `password`, or `ssh-privatekey` and `ssh-known-hosts`. */
            secretRef?: components["schemas"]["LocalRef"];
        };
        /** @description Where images of `executorImageBuild` are built and kept. */
        ImageBuilding: {
            /** @description Image with buildah; `quay.io/buildah/stable:latest` when unset. */
            builderImage?: string;
            /**
             * @description Push by plain HTTP, or without checking the certificate of the registry.
             * @default false
             */
            insecure: boolean;
            /** @description Registry, and a path in it if wanted, such as `registry.example.com/agents`. */
            registry: string;
            /** @description Resources of the containers that build and push. */
            resources?: components["schemas"]["ResourceRequirements"];
            /** @description Secret of type `kubernetes.io/dockerconfigjson` with the login for pushing, in the namespace of each build. */
            secretRef?: components["schemas"]["LocalRef"];
            /** @description Security of the containers that build and push. When unset: user 1000 with the capabilities that user namespaces need (SETUID, SETGID), and no seccomp profile. */
            securityContext?: {
                /** @description AllowPrivilegeEscalation controls whether a process can gain more privileges than its parent process. */
                allowPrivilegeEscalation?: boolean;
                /** @description appArmorProfile is the AppArmor options to use by this container. */
                appArmorProfile?: {
                    /** @description localhostProfile indicates a profile loaded on the node that should be used. */
                    localhostProfile?: string;
                    /** @description type indicates which kind of AppArmor profile will be applied. */
                    type: string;
                };
                /** @description The capabilities to add/drop when running containers. */
                capabilities?: {
                    /** @description Added capabilities */
                    add?: string[];
                    /** @description Removed capabilities */
                    drop?: string[];
                };
                /** @description Run container in privileged mode. */
                privileged?: boolean;
                /** @description procMount denotes the type of proc mount to use for the containers. */
                procMount?: string;
                /** @description Whether this container has a read-only root filesystem. Default is false. Note that this field cannot be set when spec.os.name is windows. */
                readOnlyRootFilesystem?: boolean;
                /**
                 * Format: int64
                 * @description The GID to run the entrypoint of the container process.
                 */
                runAsGroup?: number;
                /** @description Indicates that the container must run as a non-root user. */
                runAsNonRoot?: boolean;
                /**
                 * Format: int64
                 * @description The UID to run the entrypoint of the container process.
                 */
                runAsUser?: number;
                /** @description The SELinux context to be applied to the container. */
                seLinuxOptions?: {
                    /** @description Level is SELinux level label that applies to the container. */
                    level?: string;
                    /** @description Role is a SELinux role label that applies to the container. */
                    role?: string;
                    /** @description Type is a SELinux type label that applies to the container. */
                    type?: string;
                    /** @description User is a SELinux user label that applies to the container. */
                    user?: string;
                };
                /** @description The seccomp options to use by this container. */
                seccompProfile?: {
                    /** @description localhostProfile indicates a profile defined in a file on the node should be used. */
                    localhostProfile?: string;
                    /** @description type indicates which kind of seccomp profile will be applied. */
                    type: string;
                };
                /** @description The Windows specific settings applied to all containers. */
                windowsOptions?: {
                    /** @description GMSACredentialSpec is where the GMSA admission webhook (https://github.com/kubernetes-sigs/windows-gmsa) inlines the contents of the GMSA credential spec named by the GMSACredentialSpecName field. */
                    gmsaCredentialSpec?: string;
                    /** @description GMSACredentialSpecName is the name of the GMSA credential spec to use. */
                    gmsaCredentialSpecName?: string;
                    /** @description HostProcess determines if a container should be run as a 'Host Process' container. */
                    hostProcess?: boolean;
                    /** @description The UserName in Windows to run the entrypoint of the container process. */
                    runAsUserName?: string;
                };
            };
        };
        /** @description Description of an image. */
        ImageMetadata: {
            /** @description Source it was built from. */
            baseImage?: string;
            /** @description Its category. */
            category?: string;
            /** @description Short description shown to users. */
            description?: string;
            /** @description Maintainer. */
            maintainer?: string;
            /** @description Search terms. */
            tags?: string[];
            /** @description Tools inside. */
            tools?: string[];
        };
        /** @description About this server. */
        Info: {
            version: string;
            authentication: components["schemas"]["AuthenticationInfo"];
            features: string[];
        };
        /** @description An artefact of another Task, put in place before the start. */
        Input: {
            /** @description Name of the artefact. */
            artifact: string;
            /** @description Task that made it, in the same namespace. */
            fromTask: string;
            /** @description Where to put it; a relative path starts at the workspace. */
            mountPath: string;
            /**
             * @description Optional: continue if unavailable.
             * @default false
             */
            optional: boolean;
        };
        Instruction: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "Instruction";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["InstructionSpec"];
        };
        InstructionList: {
            items: components["schemas"]["InstructionResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        InstructionResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "Instruction";
            spec?: components["schemas"]["InstructionSpec"];
        };
        /** @description A text that many agents follow. */
        InstructionSpec: {
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description Where the text is. */
            configMapKeyRef?: components["schemas"]["ConfigMapKeyRef"];
            /** @description The text. `{{ name }}` is replaced by a variable. */
            text?: string;
            /** @description Values of the variables in the text. */
            variables?: {
                [key: string]: string;
            };
        };
        KubeOpenCodeConfig: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "KubeOpenCodeConfig";
            metadata?: components["schemas"]["ObjectMeta"];
            /** @description Settings of the whole platform. There is one, named `cluster`; changes apply at once. */
            spec: {
                /** @description When finished Tasks are deleted; never when unset. */
                cleanup?: components["schemas"]["Cleanup"];
                /** @description DNS domain of the cluster; cluster.local when unset. */
                clusterDomain?: string;
                /** @description Settings of Tasks and Agents that set none themselves. */
                defaults?: components["schemas"]["Defaults"];
                /** @description Where images of `executorImageBuild` are built and kept. Without it, no image is built. */
                imageBuild?: components["schemas"]["ImageBuilding"];
                /** @description Traces of what happens in Pods. */
                observability?: components["schemas"]["Observability"];
                /** @description HTTP proxy of every Pod whose Agent or template sets none. */
                proxy?: components["schemas"]["Proxy"];
                /** @description Image of our own helpers in Pods. */
                systemImage?: components["schemas"]["SystemImage"];
            };
        };
        /** @description A label selector is a label query over a set of resources. */
        LabelSelector: {
            /** @description matchExpressions is a list of label selector requirements. The requirements are ANDed. */
            matchExpressions?: {
                /** @description key is the label key that the selector applies to. */
                key: string;
                /** @description operator represents a key's relationship to a set of values. Valid operators are In, NotIn, Exists and DoesNotExist. */
                operator: string;
                /** @description values is an array of string values. */
                values?: string[];
            }[];
            /** @description matchLabels is a map of {key,value} pairs. */
            matchLabels?: {
                [key: string]: string;
            };
        };
        /** @description How bad a cause is. */
        Level: "info" | "wait" | "error" | "done";
        /** @description An object of a known kind in the same namespace. */
        LocalRef: {
            /** @description Name of the object, in the same namespace. */
            name: string;
        };
        /** @description A line of a log that matches. */
        LogMatch: {
            /**
             * Format: int64
             * @description Number of the line in the log, the first being 1.
             */
            line: number;
            /**
             * Format: date-time
             * @description When the node received the line. A line without a time says that lines were left out.
             */
            time?: string;
            /** @description The line, or the part of it around the first match. */
            text: string;
        };
        /** @description What a search found in the logs of a Task. */
        LogSearchResponse: {
            /** @description The searched runs, the newest first. */
            runs: components["schemas"]["RunMatches"][];
            /** @description Why not everything was searched or listed; unset if it was. */
            incomplete?: string;
        };
        /** @description State of an archived log. */
        LogState: {
            /** Format: int64 */
            lines?: number;
            /** Format: int64 */
            bytes?: number;
            complete?: boolean;
            /**
             * Format: int32
             * @description How often lines are missing in between.
             */
            gaps?: number;
            /**
             * Format: date-time
             * @description When the log was removed, because of its age or for space.
             */
            expiredAt?: string;
        };
        /** @description A token to log in with. */
        LoginRequest: {
            token: string;
        };
        MCPServer: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "MCPServer";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["MCPServerSpec"];
        };
        MCPServerList: {
            items: components["schemas"]["MCPServerResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        MCPServerResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "MCPServer";
            spec?: components["schemas"]["MCPServerSpec"];
        };
        /** @description An MCP server that we run: a Deployment, a Service, and a RemoteMCPServer of the same name. */
        MCPServerSpec: {
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description Arguments of the command. */
            args?: string[];
            /** @description Command instead of the image's own. */
            command?: string[];
            /** @description Environment of the server. */
            env?: components["schemas"]["EnvVar"][];
            /** @description Environment from ConfigMaps and Secrets. */
            envFrom?: {
                /** @description The ConfigMap to select from */
                configMapRef?: {
                    /** @description Name of the referent. */
                    name: string;
                    /** @description Specify whether the ConfigMap must be defined */
                    optional?: boolean;
                };
                /** @description Optional text to prepend to the name of each environment variable. Must be a C_IDENTIFIER. */
                prefix?: string;
                /** @description The Secret to select from */
                secretRef?: {
                    /** @description Name of the referent. */
                    name: string;
                    /** @description Specify whether the Secret must be defined */
                    optional?: boolean;
                };
            }[];
            /** @description Image of the server. */
            image: string;
            /** @description Path that it serves; `/mcp` when unset. */
            path?: string;
            /** @description Scheduling, security and extras of its Pods. */
            podSpec?: Record<string, unknown>;
            /**
             * Format: int32
             * @description Port that it serves.
             * @default 3000
             */
            port: number;
            /**
             * Format: int32
             * @description How many Pods run; left to an autoscaler when unset.
             */
            replicas?: number;
            /** @description Resources of the server's container. */
            resources?: components["schemas"]["ResourceRequirements"];
            /**
             * @description http: the image serves HTTP itself. stdio: our bridge starts the command and serves it.
             * @default http
             * @enum {string}
             */
            transport: "http" | "stdio";
        };
        /** @description The outcome of an action, for people. */
        Message: {
            message: string;
        };
        Model: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "Model";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["ModelSpec"];
        };
        ModelList: {
            items: components["schemas"]["ModelResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        ModelProvider: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "ModelProvider";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["ModelProviderSpec"];
        };
        ModelProviderList: {
            items: components["schemas"]["ModelProviderResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        ModelProviderResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "ModelProvider";
            spec?: components["schemas"]["ModelProviderSpec"];
        };
        /** @description An endpoint that serves models, and the credential for it. */
        ModelProviderSpec: {
            /** @description From which namespaces Models may use it. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description The API key, in a Secret of the same namespace. */
            apiKeySecretRef?: components["schemas"]["SecretKeyRef"];
            /** @description Address of the API; the provider's own when unset. */
            baseURL?: string;
            /**
             * @description Ask the provider for its models and list them in the status.
             * @default false
             */
            discoverModels: boolean;
            /** @description Headers to send. */
            headers?: {
                [key: string]: string;
            };
            /** @description Headers to send whose values are secret. */
            headersFrom?: components["schemas"]["HeaderFromSecret"][];
            /** @description Cloud project, for vertex. */
            project?: string;
            /** @description Cloud region, for bedrock and vertex. */
            region?: string;
            /** @description Trust settings. */
            tls?: components["schemas"]["Tls"];
            /**
             * @description What protocol it speaks.
             * @enum {string}
             */
            type: "openai" | "anthropic" | "google" | "vertex" | "bedrock" | "azure" | "ollama" | "openai-compatible" | "opencode";
        };
        ModelResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "Model";
            spec?: components["schemas"]["ModelSpec"];
        };
        /** @description One model of a provider, and how to use it. */
        ModelSpec: {
            /** @description From which namespaces Agents may use it. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description Price of a million tokens. */
            cost?: {
                /**
                 * Format: double
                 * @description Read from the provider's cache.
                 */
                cacheRead?: number;
                /**
                 * Format: double
                 * @description Written to the provider's cache.
                 */
                cacheWrite?: number;
                /**
                 * Format: double
                 * @description Sent to the model.
                 */
                input?: number;
                /**
                 * Format: double
                 * @description Written by the model.
                 */
                output?: number;
            };
            /** @description How much it takes in and writes. */
            limit?: {
                /**
                 * Format: int64
                 * @description Context window.
                 */
                context?: number;
                /**
                 * Format: int64
                 * @description Longest answer.
                 */
                output?: number;
            };
            /** @description Name of the model, as its provider calls it. */
            model: string;
            /** @description How to use it. */
            options?: {
                /** @description Further options, handed to the provider as they are. */
                extra?: Record<string, unknown>;
                /**
                 * Format: int64
                 * @description Longest answer, in tokens.
                 */
                maxTokens?: number;
                /**
                 * @description How hard a model thinks.
                 * @enum {string}
                 */
                reasoningEffort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh";
                /**
                 * Format: double
                 * @description Randomness from 0 to 2.
                 */
                temperature?: number;
                /**
                 * Format: double
                 * @description Nucleus sampling: probability mass from 0 to 1.
                 */
                topP?: number;
            };
            /** @description Provider that serves it. */
            providerRef: components["schemas"]["ObjectRef"];
        };
        /** @description A reference to an object of a known kind. */
        NameRef: {
            /** @description Name of the object. */
            name: string;
        };
        /** @description Namespaces, in order. */
        Namespaces: {
            namespaces: string[];
        };
        /** @description Which network connections Pods may open. */
        NetworkPolicy: {
            /** @description Connections that are allowed in Restricted mode. */
            egress?: {
                /** @description Range of addresses. */
                cidr?: string;
                /** @description Labels of those Pods' namespaces; the same namespace when unset. */
                namespaceLabels?: {
                    [key: string]: string;
                };
                /** @description Labels of the Pods that may be reached. */
                podLabels?: {
                    [key: string]: string;
                };
                /** @description Ports; every port when unset. */
                ports?: number[];
            }[];
            /**
             * @description Open: no policy. Restricted: only DNS, the Agent's own server and what `egress` lists.
             * @default Open
             * @enum {string}
             */
            mode: "Open" | "Restricted";
        };
        NewAgent: (components["schemas"]["AgentSpec"] & {
            name: string;
            labels?: {
                [key: string]: string;
            };
        }) | components["schemas"]["Agent"];
        NewAgentTemplate: (components["schemas"]["AgentTemplateSpec"] & {
            name: string;
            labels?: {
                [key: string]: string;
            };
        }) | components["schemas"]["AgentTemplate"];
        NewAgentTool: {
            spec?: components["schemas"]["AgentToolSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["AgentTool"];
        NewAgentWorkflow: {
            spec?: components["schemas"]["AgentWorkflowSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["AgentWorkflow"];
        NewCronTask: {
            /**
             * @description What to do while a Task of it still runs.
             * @default Forbid
             * @enum {string}
             */
            concurrencyPolicy: "Allow" | "Forbid" | "Replace";
            /**
             * Format: int32
             * @description Create no further Task while this many exist, finished ones included.
             * @default 10
             */
            maxRetainedTasks: number;
            /** @description When: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly. */
            schedule: string;
            /**
             * Format: int64
             * @description Skip a time that was missed by more than this many seconds.
             */
            startingDeadlineSeconds?: number;
            /** @description Create no further Tasks. */
            suspend?: boolean;
            /** @description The Task to create. */
            taskTemplate?: components["schemas"]["TaskTemplate"];
            /** @description IANA name of the time zone, such as Europe/Berlin; UTC when unset. */
            timeZone?: string;
            /** @description Description of the work; the agent gets it as its prompt and as `task.md`. */
            description?: string;
            /** @description Agent to run on. Exactly one of `agentRef` and `templateRef` must be set. */
            agentRef?: components["schemas"]["LocalRef"];
            /** @description Template to make a Pod from. Exactly one of `agentRef` and `templateRef` must be set. */
            templateRef?: components["schemas"]["LocalRef"];
            /** @description Contexts of this Task, after the Agent's own contexts. */
            contexts?: components["schemas"]["ContextItem"][];
            /** @description Stop the run after this time, counted from the start of the task container. */
            timeout?: string;
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["CronTask"];
        NewInstruction: {
            spec?: components["schemas"]["InstructionSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["Instruction"];
        NewMCPServer: {
            spec?: components["schemas"]["MCPServerSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["MCPServer"];
        NewModel: {
            spec?: components["schemas"]["ModelSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["Model"];
        NewModelProvider: {
            spec?: components["schemas"]["ModelProviderSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["ModelProvider"];
        NewRegistry: {
            spec?: components["schemas"]["RegistrySpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["Registry"];
        NewRemoteMCPServer: {
            spec?: components["schemas"]["RemoteMCPServerSpec"];
            name: string;
            labels?: {
                [key: string]: string;
            };
        } | components["schemas"]["RemoteMCPServer"];
        /** @description A new Secret. Its values are in no debug output. */
        NewSecret: {
            name: string;
            labels?: {
                [key: string]: string;
            };
            /** @description Values by key; never returned. */
            data: {
                [key: string]: string;
            };
        };
        NewTask: {
            /** @description Name; generated if empty. */
            name?: string;
            /** @description Description of the work; the agent gets it as its prompt and as `task.md`. */
            description: string;
            /** @description Agent to run on. Exactly one of `agentRef` and `templateRef` must be set. */
            agentRef?: components["schemas"]["LocalRef"];
            /** @description Template to make a Pod from. Exactly one of `agentRef` and `templateRef` must be set. */
            templateRef?: components["schemas"]["LocalRef"];
            /** @description Stop the run after this time, counted from the start of the task container. */
            timeout?: string;
            /**
             * Format: int32
             * @description Higher goes first in the queue; equal priorities go by age.
             * @default 0
             */
            priority: number;
            /** @description Contexts of this Task, after the Agent's own contexts. */
            contexts?: components["schemas"]["ContextItem"][];
            /** @description Tasks that must end first. */
            dependsOn?: components["schemas"]["Dependency"][];
            /** @description Labels of the Task. */
            labels?: {
                [key: string]: string;
            };
            /** @description Annotations of the Task. */
            annotations?: {
                [key: string]: string;
            };
            /** @description Limits of tokens and cost of each run. Of this, the Agent's budget and the platform's, the smallest counts. */
            budget?: components["schemas"]["RunBudget"];
            /** @description How permission requests are answered. */
            approval?: components["schemas"]["Approval"];
            /** @description Whether a failed run is tried again. */
            retry?: components["schemas"]["Retry"];
            /** @description Where the files of the run live. */
            workspace?: components["schemas"]["Workspace"];
            /** @description Files that are kept after the run. */
            artifacts?: components["schemas"]["Artifact"][];
            /** @description Keys that the result must have. */
            outputs?: string[];
            /** @description From admission to the start of the task container; 5m when unset. */
            startupTimeout?: string;
            /** @description A run without any event for this long ends; 15m when unset. */
            stallTimeout?: string;
            /** @description Further instructions, before contexts. */
            instructionRefs?: components["schemas"]["ObjectRef"][];
            /** @description Further tools. */
            tools?: components["schemas"]["ToolBinding"][];
        } | components["schemas"]["Task"];
        /** @description An object. */
        Node: {
            /** @description Kind/namespace/name. */
            id: string;
            kind: string;
            namespace: string;
            name: string;
            ready?: boolean;
            /** @description False if the object is referenced and missing. Absent if unknown. */
            exists?: boolean;
            detail?: string;
        };
        ObjectMeta: {
            name?: string;
            /** @description Prefix of a generated name. */
            generateName?: string;
            /** @description As in the path. */
            namespace?: string;
            labels?: {
                [key: string]: string;
            };
            annotations?: {
                [key: string]: string;
            };
            /** @description Replace only this version. */
            resourceVersion?: string;
        };
        /** @description Names an object of any kind. */
        ObjectName: {
            /** @description Its kind. */
            kind?: string;
            /** @description Its namespace. */
            namespace?: string;
            /** @description Its name. */
            name: string;
        };
        /** @description An object of a known kind, possibly in another namespace whose owner allows it. */
        ObjectRef: {
            /** @description Name of the object. */
            name: string;
            /** @description Namespace of the object; its own namespace when unset. The object must allow it (`allowedNamespaces`). */
            namespace?: string;
        };
        /** @description An object of any kind: identity, spec and status as in its definition. */
        ObjectResponse: components["schemas"]["Identity"] & {
            /** @description Kind of the object. */
            kind: string;
            /** @description Whether all conditions about readiness are true; absent if there are none. */
            ready?: boolean;
            conditions: components["schemas"]["Condition"][];
            spec: Record<string, unknown>;
            /** @description Status without conditions. */
            status?: Record<string, unknown>;
        };
        /** @description Observability. */
        Observability: {
            /** @description Export by OpenTelemetry. */
            openTelemetry?: {
                /**
                 * @description Trace calls of models.
                 * @default false
                 */
                enableLLMTraces: boolean;
                /** @description Export. */
                enabled: boolean;
                /** @description Address of the collector. */
                endpoint?: string;
                /** @description Headers of the export. */
                headers?: {
                    [key: string]: {
                        /** @description Its value, if it is no secret. */
                        value?: string;
                        /** @description Where its value is, in the Pod's namespace. */
                        valueFrom?: {
                            /** @description In a Secret. */
                            secretKeyRef: components["schemas"]["SecretKeyRef"];
                        };
                    };
                };
                /**
                 * @description Put prompts and answers into traces.
                 * @default false
                 */
                recordContent: boolean;
                /** @description Attributes of every trace. */
                resourceAttributes?: {
                    [key: string]: string;
                };
            };
        };
        /** @description The outputs of a run; empty if it has none. */
        Outputs: {
            /**
             * Format: int64
             * @description The run that wrote them; unset if no run did.
             */
            epoch?: number;
            outputs: {
                [key: string]: string;
            };
        };
        /** @description The position of a page in the whole list. */
        Pagination: {
            /** @description Page size. */
            limit: number;
            /** @description Number of objects before this page. */
            offset: number;
            /** @description Objects of the whole list. */
            totalCount: number;
            /** @description Whether another page follows. */
            hasMore: boolean;
        };
        /** @description A permission request of an agent, as OpenCode reports it. */
        Permission: {
            /** @description Answer under this id. */
            id: string;
            /** @description The session that waits. */
            sessionID: string;
            /** @description Which permission, such as bash. */
            permission?: string;
            /** @description Patterns that the request covers. */
            patterns?: string[];
            /** @description Details of the tool. */
            metadata?: Record<string, unknown>;
            /** @description Patterns that the reply `always` allows from now on. */
            always?: string[];
        };
        /** @description The answer to a permission request. */
        PermissionReply: {
            /** @description Allow once, allow always, or reject. */
            reply: components["schemas"]["Reply"];
            /** @description Sent to the agent with a rejection, so that it can try another way. */
            message?: string;
        };
        /** @description Permissions that an agent asks for. */
        Permissions: {
            permissions: components["schemas"]["Permission"][];
        };
        /** @description What of an Agent outlives its Pods. */
        Persistence: {
            /** @description Sessions; 1Gi when no size is given. */
            sessions?: {
                /** @description Size, such as 10Gi. */
                size?: string;
                /** @description Storage class; the cluster's default when unset. */
                storageClassName?: string;
            };
            /** @description The workspace; 10Gi when no size is given. */
            workspace?: {
                /** @description Size, such as 10Gi. */
                size?: string;
                /** @description Storage class; the cluster's default when unset. */
                storageClassName?: string;
            };
        };
        /** @description A plugin of the catalogue. */
        Plugin: components["schemas"]["Found"] & {
            name: string;
            plugin: components["schemas"]["PluginSpec"];
            metadata?: components["schemas"]["SkillMetadata"];
            resolvedVersion?: string;
        };
        /** @description An OpenCode plugin from npm. */
        PluginSpec: {
            /** @description Package, with or without a version: `name`, `@scope/name@1.2.3`. */
            name: string;
            /** @description Options handed to the plugin. */
            options?: Record<string, unknown>;
            /**
             * @description Which part of OpenCode loads it.
             * @default server
             * @enum {string}
             */
            target: "server" | "tui";
        };
        /** @description Probe describes a health check to be performed against a container to determine whether it is alive or ready to receive traffic. */
        Probe: {
            /** @description Exec specifies a command to execute in the container. */
            exec?: {
                /** @description Command is the command line to execute inside the container, the working directory for the command is root ('/') in the container's filesystem. */
                command?: string[];
            };
            /**
             * Format: int32
             * @description Minimum consecutive failures for the probe to be considered failed after having succeeded. Defaults to 3. Minimum value is 1.
             */
            failureThreshold?: number;
            /** @description GRPC specifies a GRPC HealthCheckRequest. */
            grpc?: {
                /**
                 * Format: int32
                 * @description Port number of the gRPC service. Number must be in the range 1 to 65535.
                 */
                port: number;
                /** @description Service is the name of the service to place in the gRPC HealthCheckRequest (see https://github.com/grpc/grpc/blob/master/doc/health-checking.md). */
                service?: string;
            };
            /** @description HTTPGet specifies an HTTP GET request to perform. */
            httpGet?: {
                /** @description Host name to connect to, defaults to the pod IP. You probably want to set "Host" in httpHeaders instead. */
                host?: string;
                /** @description Custom headers to set in the request. HTTP allows repeated headers. */
                httpHeaders?: {
                    /** @description The header field name. This will be canonicalized upon output, so case-variant names will be understood as the same header. */
                    name: string;
                    /** @description The header field value */
                    value: string;
                }[];
                /** @description Path to access on the HTTP server. */
                path?: string;
                /** @description Name or number of the port to access on the container. Number must be in the range 1 to 65535. Name must be an IANA_SVC_NAME. */
                port: number | string;
                /** @description Scheme to use for connecting to the host. Defaults to HTTP. */
                scheme?: string;
            };
            /**
             * Format: int32
             * @description Number of seconds after the container has started before liveness probes are initiated.
             */
            initialDelaySeconds?: number;
            /**
             * Format: int32
             * @description How often (in seconds) to perform the probe. Default to 10 seconds. Minimum value is 1.
             */
            periodSeconds?: number;
            /**
             * Format: int32
             * @description Minimum consecutive successes for the probe to be considered successful after having failed.
             */
            successThreshold?: number;
            /** @description TCPSocket specifies a connection to a TCP port. */
            tcpSocket?: {
                /** @description Optional: Host name to connect to, defaults to the pod IP. */
                host?: string;
                /** @description Number or name of the port to access on the container. Number must be in the range 1 to 65535. Name must be an IANA_SVC_NAME. */
                port: number | string;
            };
            /**
             * Format: int64
             * @description Optional duration in seconds the pod needs to terminate gracefully upon probe failure.
             */
            terminationGracePeriodSeconds?: number;
            /**
             * Format: int32
             * @description Number of seconds after which the probe times out.
             */
            timeoutSeconds?: number;
        };
        /** @description An identity provider to log in with. */
        ProviderInfo: {
            /** @description Display name: Sign in with … */
            name: string;
            /** @description Where a browser begins; `?next=` is the page to go to afterwards. */
            path: string;
        };
        /** @description HTTP proxy of every container. `.svc` and the cluster's domain are always excepted. */
        Proxy: {
            /** @description Proxy of http requests. */
            httpProxy?: string;
            /** @description Proxy of https requests. */
            httpsProxy?: string;
            /** @description Hosts and domains that are reached directly, separated by commas. */
            noProxy?: string;
        };
        /** @description Where the changes of a run were published. */
        PublishedStatus: {
            /** @description The branch. */
            branch?: string;
            /** @description The newest commit of the branch. */
            commit?: string;
            /** @description Address of the pull request. */
            url?: string;
        };
        /** @description The queue of an Agent or template. */
        QueueState: {
            /** @description Whose queue. */
            target: components["schemas"]["ObjectName"];
            /**
             * Format: uint
             * @description Place of the Task, 1 being next.
             */
            position?: number;
            /**
             * Format: uint
             * @description Tasks that wait.
             */
            waiting: number;
            /**
             * Format: uint
             * @description Tasks that run.
             */
            running: number;
            /**
             * Format: uint32
             * @description Tasks that may run at once.
             */
            maxConcurrentTasks?: number;
            /** @description What runs, and what goes before; the first 20. */
            ahead: components["schemas"]["Ahead"][];
        };
        /** @description How many Tasks may start in a sliding window of time. */
        Quota: {
            /**
             * Format: int32
             * @description At most this many Tasks start in the window.
             */
            maxTaskStarts: number;
            /**
             * Format: int32
             * @description Length of the window in seconds.
             */
            windowSeconds: number;
        };
        /** @description Starts in the window of a quota. */
        QuotaState: {
            /**
             * Format: int32
             * @description Starts that are allowed.
             */
            maxTaskStarts: number;
            /**
             * Format: int32
             * @description Length of the window.
             */
            windowSeconds: number;
            /**
             * Format: uint
             * @description Starts in the window that ends now.
             */
            used: number;
            /**
             * Format: date-time
             * @description When the next may start, if none is left.
             */
            nextStartAt?: string;
        };
        /** @description Whether the server can answer. */
        Readiness: {
            status: components["schemas"]["Ready"];
        };
        /**
         * @description Whether a server knows the cluster.
         * @enum {string}
         */
        Ready: "ready" | "not ready";
        Registry: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "Registry";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["RegistrySpec"];
        };
        RegistryList: {
            registries: components["schemas"]["RegistryResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        /** @description A Registry. */
        RegistryResponse: components["schemas"]["Identity"] & {
            checkInterval?: string;
            npmRegistryURL?: string;
            images: components["schemas"]["Image"][];
            skills: components["schemas"]["Skill"][];
            plugins: components["schemas"]["Plugin"][];
            summary?: components["schemas"]["RegistrySummary"];
            conditions: components["schemas"]["Condition"][];
        };
        /** @description A catalogue of images, skills and plugins to build agents from. */
        RegistrySpec: {
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description How often the assets are looked at; 10m when unset. */
            checkInterval?: string;
            /** @description Images. */
            images?: {
                /** @description The image. */
                image: string;
                /** @description What it is. */
                metadata?: components["schemas"]["ImageMetadata"];
                /** @description Name in the catalogue. */
                name: string;
                /** @description Secret for pulling it. */
                secretRef?: components["schemas"]["LocalRef"];
            }[];
            /** @description Address of the npm registry; the controller's `npm_config_registry` when unset. */
            npmRegistryURL?: string;
            /** @description Plugins. */
            plugins?: {
                /** @description What it is. */
                metadata?: components["schemas"]["SkillMetadata"];
                /** @description Name in the catalogue. */
                name: string;
                /** @description The plugin. */
                plugin: components["schemas"]["PluginSpec"];
            }[];
            /** @description Collections of skills. */
            skills?: {
                /** @description Where it comes from. */
                git: components["schemas"]["GitSkillSource"];
                /** @description What it is. */
                metadata?: components["schemas"]["SkillMetadata"];
                /** @description Name in the catalogue. */
                name: string;
            }[];
        };
        /** @description Numbers of a catalogue. */
        RegistrySummary: {
            /**
             * Format: int32
             * @description Images listed.
             */
            images: number;
            /**
             * Format: int32
             * @description Collections of skills listed.
             */
            skills: number;
            /**
             * Format: int32
             * @description Plugins listed.
             */
            plugins: number;
            /**
             * Format: int32
             * @description Assets that are there.
             */
            readyCount: number;
            /**
             * Format: int32
             * @description Assets listed.
             */
            totalCount: number;
        };
        RemoteMCPServer: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "RemoteMCPServer";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["RemoteMCPServerSpec"];
        };
        RemoteMCPServerList: {
            items: components["schemas"]["RemoteMCPServerResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        RemoteMCPServerResponse: components["schemas"]["ObjectResponse"] & {
            /** @constant */
            kind?: "RemoteMCPServer";
            spec?: components["schemas"]["RemoteMCPServerSpec"];
        };
        /** @description An MCP endpoint that exists. Its tools are discovered and put into the catalogue. */
        RemoteMCPServerSpec: {
            /**
             * @description Direct: agents connect to it. Gateway: requests pass through our server, which filters tools and adds secrets.
             * @default Direct
             * @enum {string}
             */
            access: "Direct" | "Gateway";
            /** @description From which namespaces it may be used. */
            allowedNamespaces?: components["schemas"]["AllowedNamespaces"];
            /** @description Short description shown to users. */
            description?: string;
            /**
             * @description Whether its tools are looked at.
             * @default Enabled
             * @enum {string}
             */
            discovery: "Enabled" | "Disabled";
            /** @description Headers to send. */
            headers?: {
                [key: string]: string;
            };
            /** @description Headers to send whose values are secret. */
            headersFrom?: components["schemas"]["HeaderFromSecret"][];
            /** @description Path at that Service; `/mcp` when unset. */
            path?: string;
            /**
             * @description How it is spoken to.
             * @default StreamableHTTP
             * @enum {string}
             */
            protocol: "StreamableHTTP" | "SSE";
            /**
             * @description How often its tools are looked at.
             * @default 60s
             */
            refreshInterval: string;
            /** @description Service in front of the endpoint. */
            serviceRef?: components["schemas"]["ServiceRef"];
            /** @description Give up a call after this time; 30s when unset. */
            timeout?: string;
            /** @description Trust settings. */
            tls?: components["schemas"]["Tls"];
            /** @description Address of the endpoint. */
            url?: string;
        };
        /**
         * @description How a permission request is answered.
         * @enum {string}
         */
        Reply: "once" | "always" | "reject";
        /** @description A credential that a skill or plugin needs. */
        RequiredCredential: {
            /** @description Short description shown to users. */
            description?: string;
            /** @description Environment variable that carries it. */
            env: string;
        };
        /** @description ResourceRequirements describes the compute resource requirements. */
        ResourceRequirements: {
            /** @description Claims lists the names of resources, defined in spec.resourceClaims, that are used by this container. */
            claims?: {
                /** @description Name must match the name of one entry in pod.spec.resourceClaims of the Pod where this field is used. It makes that resource available inside a container. */
                name: string;
                /** @description Request is the name chosen for a request in the referenced claim. */
                request?: string;
            }[];
            /** @description Limits describes the maximum amount of compute resources allowed. More info: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/ */
            limits?: {
                [key: string]: number | string;
            };
            /** @description Requests describes the minimum amount of compute resources required. */
            requests?: {
                [key: string]: number | string;
            };
        };
        /** @description Whether a run that failed is tried again. Off by default: an agent's actions cannot be undone by trying again. */
        Retry: {
            /** @description Wait this long before the first retry; twice as long before each further one. 30s when unset. */
            backoff?: string;
            /** @description After which failures. (Not called `on`: kubectl reads a bare `on` in YAML as true.) */
            causes?: ("Disruption" | "Startup" | "NonZeroExit")[];
            /**
             * Format: int32
             * @description How often to try again.
             * @default 0
             */
            maxRetries: number;
        };
        /** @description Limits of tokens and cost of each run of a Task. Reaching a limit stops the run. */
        RunBudget: {
            /** @description Cost in the currency of the models' prices, as a decimal number such as "2.50". */
            maxCost?: string;
            /**
             * Format: int64
             * @description Tokens, input and output together, without those from the provider's cache.
             */
            maxTokens?: number;
        };
        /** @description What a search found in the log of one run. */
        RunMatches: {
            /**
             * Format: int64
             * @description Number of the run, the first being 1.
             */
            epoch: number;
            /** @description The first matching lines. */
            matches: components["schemas"]["LogMatch"][];
            /**
             * Format: int64
             * @description Matching lines, including those that are not listed.
             */
            matchCount: number;
            /**
             * Format: int64
             * @description Searched lines.
             */
            lineCount: number;
            /** @description What the log of this run lacks, as a sentence. */
            missing?: string;
        };
        /** @description One run of a Task. */
        RunResponse: {
            /**
             * Format: int64
             * @description Number, starting at 1.
             */
            run: number;
            phase?: components["schemas"]["TaskPhase"];
            /** @description Machine-readable reason for the outcome. */
            reason?: string;
            /** @description Message for people. */
            message?: string;
            /**
             * Format: int32
             * @description Exit code of the task container.
             */
            exitCode?: number;
            /**
             * Format: int32
             * @description Number of tries up to this one.
             */
            attempt?: number;
            /**
             * Format: date-time
             * @description When the task container started.
             */
            startTime?: string;
            /**
             * Format: date-time
             * @description When the run ended.
             */
            completionTime?: string;
            /** @description Duration so far, such as 1m5s. */
            duration?: string;
            usage?: components["schemas"]["Usage"];
            /** @description The final answer, shortened. */
            summary?: string;
            /** @description State of the archived log. */
            logs?: components["schemas"]["LogState"];
            caches?: components["schemas"]["CacheStatus"][];
            published?: components["schemas"]["PublishedStatus"];
        };
        /** @description The runs of a Task. */
        Runs: {
            /** @description The latest first. */
            runs: components["schemas"]["RunResponse"][];
        };
        /** @description An object that was saved. */
        SavedObject: {
            kind: string;
            name: string;
        };
        /** @description Objects of all kinds that match a text. */
        SearchResponse: {
            /** @description The best match first. */
            results: components["schemas"]["SearchResult"][];
        };
        /** @description An object that matches a text. */
        SearchResult: {
            kind: string;
            namespace: string;
            name: string;
            /** @description Title of a Task. */
            title?: string;
        };
        /** @description One key of a Secret in the same namespace. */
        SecretKeyRef: {
            /** @description Key in the Secret. */
            key: string;
            /** @description Name of the Secret. */
            name: string;
        };
        /** @description The Secrets of a namespace, by name. */
        SecretList: {
            items: components["schemas"]["SecretResponse"][];
            total: number;
        };
        /** @description A Secret without its values. */
        SecretResponse: components["schemas"]["Identity"] & {
            /** @description Type of the Secret, such as Opaque. */
            type?: string;
            /** @description Names of the values. */
            keys: string[];
            /** @description Whether the values can no longer be changed. */
            immutable?: boolean;
        };
        /** @description The server of an Agent. */
        ServerStatus: {
            deploymentName?: string;
            serviceName?: string;
            /** @description Address inside the cluster. */
            url?: string;
            ready: boolean;
            /** Format: int32 */
            port: number;
            suspended: boolean;
            /** Format: date-time */
            idleSince?: string;
            gitSyncStatuses?: components["schemas"]["GitSyncStatus"][];
            passwordSecret?: components["schemas"]["SecretKeyRef"];
        };
        /** @description A Service as the target of HTTP calls. */
        ServiceRef: {
            /** @description Name of the Service. */
            name: string;
            /** @description Namespace of the Service; the object's own when unset. */
            namespace?: string;
            /**
             * Format: int32
             * @description Number of the port.
             */
            port?: number;
            /** @description Name of the port, as the Service calls it. */
            portName?: string;
        };
        /** @description The OpenCode session of a run. */
        Session: {
            /** @description Its id on the server. */
            id?: string;
            /** @description Its title. */
            title?: string;
            /** @description What happened in it. */
            summary?: components["schemas"]["SessionSummary"];
        };
        /** @description Numbers of a session. */
        SessionSummary: {
            /**
             * Format: int32
             * @description Messages of all roles.
             */
            messageCount?: number;
            /** @description Tokens by kind. */
            tokenUsage?: components["schemas"]["TokenUsage"];
            /** @description Cost as a decimal number. */
            cost?: string;
            /**
             * Format: int32
             * @description Files that changed.
             */
            filesChanged?: number;
            /**
             * Format: int32
             * @description Lines added.
             */
            additions?: number;
            /**
             * Format: int32
             * @description Lines removed.
             */
            deletions?: number;
        };
        /** @description One resolved setting. */
        Setting: {
            /** @description Its path, such as `agent.executorImage`. */
            path: string;
            /** @description Its value. */
            value: unknown;
            /** @description Who decided it. */
            origin: {
                /** @enum {string} */
                from: "Task" | "Agent" | "Template" | "Config" | "Environment" | "BuiltIn";
                /** @description Of the Agent or template. */
                name?: string;
            };
            /** @description The same in words. */
            originText: string;
        };
        /** @description Settings of an Agent or AgentTemplate. */
        Settings: {
            executorImage?: string;
            agentImage?: string;
            attachImage?: string;
            workspaceDir?: string;
            serviceAccountName?: string;
            contextsCount: number;
            credentialsCount: number;
            skillsCount: number;
            pluginsCount: number;
            /** Format: int32 */
            maxConcurrentTasks?: number;
            quota?: components["schemas"]["Quota"];
            /** @description Names of Secrets, never their values. */
            credentials: components["schemas"]["Credential"][];
            contexts: components["schemas"]["ContextSummary"][];
            skills?: components["schemas"]["SkillSource"][];
            plugins?: components["schemas"]["PluginSpec"][];
            config?: unknown;
            modelRef?: components["schemas"]["ObjectRef"];
        };
        /** @description The result of a test. */
        SetupFinding: {
            /** @description Whether the provider accepts the key and, if one is chosen, offers the model. */
            works: boolean;
            /** @description The result for people. */
            message: string;
            /** @description Models that the provider lists. */
            models: string[];
            /** @description The model to offer first. */
            suggestedModel?: string;
        };
        /** @description A provider, its key and a model. */
        SetupRequest: {
            /** @enum {string} */
            provider: "anthropic" | "openai" | "google" | "ollama" | "openai-compatible";
            /** @description Address of the API; required for `openai-compatible`, otherwise the provider's own when unset. */
            baseUrl?: string;
            /** @description API key; never returned. */
            key?: string;
            /** @description Name of the model at the provider. */
            model: string;
            /** @description Name of the ModelProvider and the template; that of the provider when unset. */
            name?: string;
        };
        /** @description What a setup saved. */
        SetupResponse: {
            /** @description The objects, in the order in which they were saved. */
            objects: components["schemas"]["SavedObject"][];
            /** @description Name of the template for Tasks. */
            template: string;
        };
        /** @description How to reach a provider. Its key is in no debug output. */
        SetupTest: {
            /** @enum {string} */
            provider: "anthropic" | "openai" | "google" | "ollama" | "openai-compatible";
            /** @description Address of the API; required for `openai-compatible`, otherwise the provider's own when unset. */
            baseUrl?: string;
            /** @description API key; never returned. */
            key?: string;
            /** @description Model to test too. */
            model?: string;
        };
        /** @description How to share. */
        ShareRequest: {
            /** @description The link opens; true when unset. */
            enabled?: boolean;
            /** @description Lifetime of the link, such as 24h. */
            expiresIn?: string;
            /** @description Only from these addresses or ranges. */
            allowedIPs?: string[];
        };
        /** @description A share link; with the token for callers who may read the Secret. */
        ShareResponse: {
            enabled: boolean;
            active: boolean;
            /** @description Only for callers who may read the Secret. */
            token?: string;
            /** @description Path of the link. */
            path?: string;
            /** Format: date-time */
            expiresAt?: string;
            allowedIPs?: string[];
        };
        /** @description A share link without the token. */
        ShareSummary: {
            enabled: boolean;
            active: boolean;
            secretName?: string;
            url?: string;
            /** Format: date-time */
            expiresAt?: string;
            allowedIPs?: string[];
        };
        /** @description A container that runs beside the task, such as a database, and is ready before it starts. */
        SideService: {
            /** @description Its environment. */
            env?: components["schemas"]["EnvVar"][];
            /** @description Its image. */
            image: string;
            /** @description Name of the container. */
            name: string;
            /** @description Its ports, reachable at localhost. */
            ports?: {
                /**
                 * Format: int32
                 * @description Number of the port.
                 */
                containerPort: number;
                /** @description Name of the port. */
                name?: string;
                /**
                 * @description Protocol of the port.
                 * @default TCP
                 * @enum {string}
                 */
                protocol: "TCP" | "UDP";
            }[];
            /** @description When it is ready; a TCP connection to its first port when unset. */
            startupProbe?: components["schemas"]["Probe"];
        };
        /** @description A collection of skills of the catalogue. */
        Skill: components["schemas"]["Found"] & {
            name: string;
            git: components["schemas"]["GitSkillSource"];
            metadata?: components["schemas"]["SkillMetadata"];
            latestCommit?: string;
        };
        /** @description Description of a collection of skills. */
        SkillMetadata: {
            /** @description Short description shown to users. */
            description?: string;
            /** @description Credentials that it needs. */
            requiredCredentials?: components["schemas"]["RequiredCredential"][];
            /** @description Search terms. */
            tags?: string[];
        };
        /** @description A collection of skills from a Git repository. */
        SkillSource: {
            /** @description Where it comes from. */
            git?: components["schemas"]["GitSkillSource"];
            /** @description Name of the collection; its skills are mounted at `/skills/<name>`. */
            name: string;
        };
        /** @description Slots of an Agent. */
        Slots: {
            /** @description Tasks that run. */
            used: number;
            /**
             * Format: int32
             * @description Tasks that may run at once; any number when absent.
             */
            total?: number;
        };
        /** @description When an idle Agent is suspended. */
        Standby: {
            /** @description Suspend the Agent when neither a Task nor a person used it for this long. A Task wakes it up. */
            idleTimeout: string;
        };
        /** @description One step; exactly one of agent, task, container, http and switch says what it does. */
        Step: {
            /** @description Sends a message to an Agent. */
            agent?: {
                /** @description The Agent. */
                ref: components["schemas"]["ObjectRef"];
                /** @description Prompt for the agent. */
                text: string;
            };
            /** @description Skip the step unless this expression is true. */
            condition?: string;
            /** @description Runs a container. */
            container?: components["schemas"]["ContainerStep"];
            /** @description Steps that must succeed first. */
            dependsOn?: string[];
            /** @description Calls an HTTP endpoint. */
            http?: {
                /** @description The body. */
                body?: string;
                /** @description Headers to send. */
                headers?: {
                    [key: string]: string;
                };
                /** @description Headers to send whose values are secret. */
                headersFrom?: components["schemas"]["HeaderFromSecret"][];
                /**
                 * @description The method.
                 * @default GET
                 * @enum {string}
                 */
                method: "GET" | "POST" | "PUT" | "DELETE" | "PATCH" | "HEAD" | "OPTIONS";
                /** @description Expression over `status` and `body` that is true on success; any 2xx when unset. */
                successCondition?: string;
                /** @description The address. */
                url: string;
            };
            /** @description Its name. */
            name: string;
            /** @description Try again after a failure. Off by default. */
            retry?: {
                /** @description Wait this long before the first retry; twice as long before each further one. */
                backoff?: string;
                /**
                 * Format: int32
                 * @description How often to try again.
                 */
                limit: number;
            };
            /** @description Selects the steps that continue. */
            switch?: {
                /** @description Taken if this expression is true and no earlier case was taken. */
                condition?: string;
                /** @description Taken if no other case was. */
                default?: boolean;
                /** @description Step to continue with. */
                then: string;
            }[];
            /** @description Creates a Task. */
            task?: components["schemas"]["TaskSpec"];
            /** @description Fail the step after this time. */
            timeout?: string;
        };
        /** @description Totals for the dashboard. */
        Summary: {
            tasks: components["schemas"]["TaskTotals"];
            usage: components["schemas"]["UsageTotals"];
            agents: components["schemas"]["AgentTotals"];
            cronTasks: components["schemas"]["CronTotals"];
            /** @description The ten newest Tasks. */
            recent: components["schemas"]["TaskResponse"][];
        };
        /**
         * @description What suspended an Agent.
         * @enum {string}
         */
        Suspender: "User" | "Standby";
        /** @description Image of our own helpers. */
        SystemImage: {
            /** @description The image. */
            image?: string;
            /**
             * @description When a node pulls an image.
             * @enum {string}
             */
            imagePullPolicy?: "Always" | "Never" | "IfNotPresent";
        };
        Task: {
            /** @constant */
            apiVersion?: "kubeopencode.io/v1alpha1";
            /** @constant */
            kind: "Task";
            metadata?: components["schemas"]["ObjectMeta"];
            spec: components["schemas"]["TaskSpec"];
        };
        /** @description The changes of a run in its workspace, compared before and after the run. */
        TaskChangesResponse: {
            /** @description Whether the workspace was compared. Otherwise `notes` says why not. */
            compared: boolean;
            /** @description Changed files, the first 300. */
            files: components["schemas"]["ChangedFile"][];
            /**
             * Format: int64
             * @description Number of changed files.
             */
            fileCount: number;
            /**
             * Format: int64
             * @description Lines added.
             */
            insertions: number;
            /**
             * Format: int64
             * @description Lines removed.
             */
            deletions: number;
            /** @description Commits that the run added to local branches, the newest 50. */
            commits: components["schemas"]["ChangeCommit"][];
            /**
             * Format: int64
             * @description Number of these commits.
             */
            commitCount: number;
            /** @description Sentences about what the comparison does not cover. */
            notes: string[];
            /**
             * Format: int64
             * @description Size of the whole change as a patch; unset if none is stored.
             */
            patchBytes?: number;
        };
        /** @description The explanation of a Task's state. */
        TaskExplanation: {
            /** @description The Task. */
            task: components["schemas"]["ObjectName"];
            /** @description Its stage. */
            phase: components["schemas"]["TaskPhase"];
            /** @description Machine-readable reason. */
            reason?: string;
            /** @description The same as a sentence. */
            message?: string;
            /** @description Causes, from the visible state to the root cause. */
            chain: components["schemas"]["Cause"][];
            /** @description Only while it waits. */
            queue?: components["schemas"]["QueueState"];
            /** @description Starts in the window of the quota. */
            quota?: components["schemas"]["QuotaState"];
            /** @description Tasks that it depends on. */
            dependencies: components["schemas"]["DependencyState"][];
            /** @description The settings of the run, each with its origin. */
            settings: components["schemas"]["Setting"][];
            /** @description Why the settings are not available. */
            settingsError?: string;
            /** @description Suggested steps. */
            next: string[];
        };
        TaskList: {
            tasks: components["schemas"]["TaskResponse"][];
            total: number;
            pagination: components["schemas"]["Pagination"];
        };
        /** @description The result of a run. */
        TaskOutcome: {
            /** @description The final answer, shortened. */
            summary?: string;
            /** @description Declared outputs; only in details. */
            outputs?: {
                [key: string]: string;
            };
        };
        /** @description Stages of a Task. */
        TaskPhase: "Pending" | "Queued" | "Running" | "Completed" | "Failed";
        /** @description A Task. */
        TaskResponse: components["schemas"]["Identity"] & {
            phase: components["schemas"]["TaskPhase"];
            /** @description First line of the description, at most 120 characters. */
            title?: string;
            /** @description User who created the Task through the REST API, as kubeopencode.io/created-by records. */
            createdBy?: string;
            /** @description Program that created the Task (its field manager); only in details. */
            createdWith?: string;
            /** @description Description. Lists hold the first 1000 characters. */
            description?: string;
            /** @description Agent of the Task. */
            agentRef?: components["schemas"]["NameRef"];
            /** @description AgentTemplate of the Task. */
            templateRef?: components["schemas"]["NameRef"];
            /** @description Stop after this time. */
            timeout?: string;
            /** @description Pod of the current run. */
            podName?: string;
            session?: components["schemas"]["Session"];
            /**
             * Format: date-time
             * @description When the work began.
             */
            startTime?: string;
            /**
             * Format: date-time
             * @description Time of completion.
             */
            completionTime?: string;
            /** @description Duration so far, such as 1m5s. */
            duration?: string;
            /**
             * Format: int64
             * @description The same in seconds.
             */
            durationSeconds?: number;
            /** @description Details, by type. */
            conditions: components["schemas"]["Condition"][];
            /** @description Our own annotations (kubeopencode.io/…). */
            annotations?: {
                [key: string]: string;
            };
            /** @description Machine-readable reason for waiting or for the outcome. */
            reason?: string;
            /** @description Message for people. */
            message?: string;
            /**
             * Format: int32
             * @description Exit code of the task container.
             */
            exitCode?: number;
            /**
             * Format: int32
             * @description Place in the queue, 1 being next.
             */
            queuePosition?: number;
            /**
             * Format: int32
             * @description Higher goes first.
             */
            priority: number;
            /**
             * Format: int64
             * @description Number of the current run.
             */
            runEpoch?: number;
            /**
             * Format: int32
             * @description Number of tries so far.
             */
            attempt?: number;
            /** @description When the stages before the start were reached. */
            timings?: components["schemas"]["Timings"];
            usage?: components["schemas"]["Usage"];
            /** @description Result of the run. */
            result?: components["schemas"]["TaskOutcome"];
            /** @description State of the archived log. */
            logs?: components["schemas"]["LogState"];
            /** @description CronTask that created the Task. */
            cronTask?: string;
            dependsOn?: components["schemas"]["Dependency"][];
            contexts?: components["schemas"]["ContextItem"][];
            /** @description A stop was requested. */
            stopRequested: boolean;
            /** @description The agent waits for a person's permission. */
            awaitingApproval: boolean;
            caches?: components["schemas"]["CacheStatus"][];
            published?: components["schemas"]["PublishedStatus"];
        };
        /** @description One unit of work for an agent, described in natural language. */
        TaskSpec: {
            /** @description Agent to run on. Exactly one of `agentRef` and `templateRef` must be set. */
            agentRef?: components["schemas"]["LocalRef"];
            /** @description How permission requests are answered. */
            approval?: components["schemas"]["Approval"];
            /** @description Files that are kept after the run. */
            artifacts?: components["schemas"]["Artifact"][];
            /** @description Limits of tokens and cost of each run. Of this, the Agent's budget and the platform's, the smallest counts. */
            budget?: components["schemas"]["RunBudget"];
            /** @description Files that later runs can reuse. */
            caches?: components["schemas"]["Cache"][];
            /** @description After the end of the agent: how long storing artefacts, outputs and caches, and publishing may take; 10m when unset. */
            collectTimeout?: string;
            /** @description Contexts of this Task, after the Agent's own contexts. */
            contexts?: components["schemas"]["ContextItem"][];
            /** @description Tasks that must end first. */
            dependsOn?: components["schemas"]["Dependency"][];
            /** @description Description of the work; the agent gets it as its prompt and as `task.md`. */
            description?: string;
            /** @description Build the executor image from a repository. */
            executorImageBuild?: components["schemas"]["ImageBuild"];
            /** @description Artefacts of other Tasks, put in place before the start. */
            inputs?: components["schemas"]["Input"][];
            /** @description Further instructions, before contexts. */
            instructionRefs?: components["schemas"]["ObjectRef"][];
            /** @description Keys that the result must have. */
            outputs?: string[];
            /**
             * Format: int32
             * @description Higher goes first in the queue; equal priorities go by age.
             * @default 0
             */
            priority: number;
            /** @description Push the changes of the run to a branch, and open a pull request. The agent never holds the credential. */
            publish?: {
                /** @description Author of that commit. */
                author?: {
                    /** @description Address. */
                    email: string;
                    /** @description Name. */
                    name: string;
                };
                /** @description Branch that the pull request is to change; the `ref` of the context when unset. */
                baseBranch?: string;
                /** @description Branch to push to; `agents/{{ task }}` when unset. */
                branch?: string;
                /** @description Name of the Git context whose changes are pushed; needed if there are several. */
                context?: string;
                /** @description Message of the commit with changes that the agent did not commit; the title of the Task when unset. */
                message?: string;
                /** @description Open a pull request, which GitLab calls a merge request. */
                pullRequest?: {
                    /** @description Base URL of the server's API; derived from the repository's URL when unset. */
                    apiURL?: string;
                    /** @description Text; the agent's final answer when unset. */
                    body?: string;
                    /**
                     * @description Open it as a draft.
                     * @default false
                     */
                    draft: boolean;
                    /** @description Labels to add. */
                    labels?: string[];
                    /**
                     * @description The software of a Git server.
                     * @enum {string}
                     */
                    provider?: "GitHub" | "GitLab" | "Gitea";
                    /** @description Title; the subject of the newest commit when unset. */
                    title?: string;
                };
                /** @description Secret with `username` and `password`, or with `ssh-privatekey` and `ssh-known-hosts`. A pull request needs a token as `password`. */
                secretRef: components["schemas"]["LocalRef"];
                /**
                 * @description After which end the changes are pushed.
                 * @default OnSuccess
                 * @enum {string}
                 */
                when: "OnSuccess" | "Always";
            };
            /** @description Whether a failed run is tried again. */
            retry?: components["schemas"]["Retry"];
            /** @description Containers that run beside the task, in its Pod, and are reached at localhost. */
            services?: components["schemas"]["SideService"][];
            /** @description A run without any event for this long ends; 15m when unset. */
            stallTimeout?: string;
            /** @description From admission to the start of the task container; 5m when unset. */
            startupTimeout?: string;
            /** @description Template to make a Pod from. Exactly one of `agentRef` and `templateRef` must be set. */
            templateRef?: components["schemas"]["LocalRef"];
            /** @description Stop the run after this time, counted from the start of the task container. */
            timeout?: string;
            /** @description Further tools. */
            tools?: components["schemas"]["ToolBinding"][];
            /** @description Where the files of the run live. */
            workspace?: components["schemas"]["Workspace"];
        };
        /** @description The Task that a CronTask creates. */
        TaskTemplate: {
            /** @description Labels and annotations of the Task. */
            metadata?: {
                /** @description Annotations. */
                annotations?: {
                    [key: string]: string;
                };
                /** @description Labels. */
                labels?: {
                    [key: string]: string;
                };
            };
            /** @description Its spec. */
            spec: components["schemas"]["TaskSpec"];
        };
        /** @description Tasks in numbers. */
        TaskTotals: {
            total: number;
            byPhase: {
                [key: string]: number;
            };
            waitingByReason: {
                [key: string]: number;
            };
            failedByReason24h: {
                [key: string]: number;
            };
            failedByReason7d: {
                [key: string]: number;
            };
            completed24h: number;
            /** @description Stopped by a user or a timeout; not in completed24h. */
            stopped24h: number;
            failed24h: number;
            awaitingApproval: number;
        };
        /** @description When the stages before the start were reached. */
        Timings: {
            /** Format: date-time */
            queuedAt?: string;
            /** Format: date-time */
            admittedAt?: string;
            /** Format: date-time */
            podCreatedAt?: string;
            /** Format: date-time */
            scheduledAt?: string;
            /** Format: date-time */
            preparedAt?: string;
            /** Format: date-time */
            collectedAt?: string;
        };
        /** @description Trust settings of an HTTPS endpoint. */
        Tls: {
            /** @description Certificate authorities to trust besides the system's, as PEM. */
            caSecretRef?: components["schemas"]["SecretKeyRef"];
            /**
             * @description Accept any certificate. For experiments only.
             * @default false
             */
            insecureSkipVerify: boolean;
        };
        /** @description Tokens by kind. */
        TokenUsage: {
            /**
             * Format: int64
             * @description Sent to the model.
             * @default 0
             */
            input: number;
            /**
             * Format: int64
             * @description Written by the model.
             * @default 0
             */
            output: number;
            /**
             * Format: int64
             * @description Spent on reasoning.
             * @default 0
             */
            reasoning: number;
            /**
             * Format: int64
             * @description Read from or written to the provider's cache.
             * @default 0
             */
            cache: number;
        };
        /** @description Tools of one server, API or Agent, with permissions. */
        ToolBinding: {
            /**
             * @description Offer the tools to the agent.
             * @default true
             */
            enabled: boolean;
            /** @description Headers of this agent's calls, from Secrets in its own namespace. */
            headersFrom?: components["schemas"]["HeaderFromSecret"][];
            /** @description Who offers the tools. */
            ref: components["schemas"]["ToolRef"];
            /** @description Tools that need a person's approval. */
            requireApproval?: string[];
            /** @description Only these tools; all of them when empty. */
            toolNames?: string[];
        };
        /**
         * @description Kinds that offer tools.
         * @enum {string}
         */
        ToolKind: "RemoteMCPServer" | "MCPServer" | "AgentTool" | "Agent";
        /** @description An object that offers tools. */
        ToolRef: {
            /** @description Kind of the object. */
            kind: components["schemas"]["ToolKind"];
            /** @description Name of the object. */
            name: string;
            /** @description Namespace of the object; its own namespace when unset. The object must allow it. */
            namespace?: string;
        };
        /** @description One tool binding, as found. */
        ToolStatus: {
            /** @description Who offers the tools. */
            ref: components["schemas"]["ToolRef"];
            /**
             * Format: int32
             * @description How many the agent may call.
             */
            count?: number;
            /** @description Names that the server does not offer. */
            missing?: string[];
        };
        /** @description When a schedule is due next. */
        Upcoming: {
            schedule: string;
            /** @description Zone of the local times. */
            timeZone: string;
            /** @description While suspended, no Tasks are created at these times. */
            suspended: boolean;
            /** @description Why no Tasks are created, and how to change that. `times` is empty then. */
            blocked?: string;
            times: components["schemas"]["UpcomingTime"][];
        };
        /** @description One time at which a schedule is due. */
        UpcomingTime: {
            /** Format: date-time */
            at: string;
            /** @description The same as local time of the zone, with the offset from UTC. */
            local: string;
        };
        /** @description A document fetched over HTTP when the task starts. */
        UrlContext: {
            /** @description Headers to send. */
            headers?: {
                [key: string]: string;
            };
            /**
             * @description Accept any certificate. For experiments only.
             * @default false
             */
            insecureSkipTLSVerify: boolean;
            /**
             * Format: int64
             * @description Refuse a document of more than this many bytes; 10 MiB when unset.
             */
            maxBytes?: number;
            /** @description Secret with `token`, or `username` and `password`. */
            secretRef?: components["schemas"]["LocalRef"];
            /** @description Address of the document, http or https. */
            source: string;
            /**
             * Format: int32
             * @description Give up after this many seconds.
             * @default 30
             */
            timeout: number;
        };
        /** @description Tokens and cost of a run. */
        Usage: {
            /** @description Tokens by kind. */
            tokens?: components["schemas"]["TokenUsage"];
            /** @description Cost as a decimal number. */
            cost?: string;
        };
        /** @description Tokens and cost. */
        UsageTotals: {
            tokens: components["schemas"]["TokenUsage"];
            /** @description Decimal number. */
            cost: string;
            buckets: components["schemas"]["Bucket"][];
        };
        /** @description The authenticated user. */
        WhoAmI: {
            user: string;
            groups: string[];
            anonymous: boolean;
            /** @description Nothing can be changed. */
            readOnly: boolean;
            via: components["schemas"]["AuthenticatedBy"];
            /** @description CSRF token of a session, required as X-KubeOpenCode-CSRF with every change. */
            csrfToken?: string;
            /**
             * Format: date-time
             * @description The session ends then.
             */
            expiresAt?: string;
        };
        /** @description Where the files of a run live. Unset: in an emptyDir that goes with the Pod. */
        Workspace: {
            /**
             * @description How a workspace volume is mounted.
             * @enum {string}
             */
            accessMode?: "ReadWriteOnce" | "ReadWriteMany";
            /** @description An existing claim to share, of this namespace. */
            claimName?: string;
            /**
             * @description Keep the claim of a failed run until its Task is deleted, for inspection; the event WorkspaceRetained names it.
             * @default false
             */
            retainOnFailure: boolean;
            /**
             * @description How much of a shared claim a run sees.
             * @enum {string}
             */
            sharing?: "Run" | "All";
            /** @description Size, such as 20Gi (the default). */
            size?: string;
            /** @description Storage class; the cluster's default when unset. */
            storageClassName?: string;
        };
        /**
         * Format: date-time
         * @description Time is a wrapper around time.Time which supports correct marshaling to YAML and JSON.  Wrappers are provided for many of the factory methods that the time package offers.
         */
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time": string;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
