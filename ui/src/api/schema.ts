/**
 * The bodies of the REST API. Made from docs/reference/openapi.json by `npm run generate`: change nothing here.
 */

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Why an Agent is where it is. */
        AgentExplanation: {
            agent: components["schemas"]["ObjectName"];
            phase?: string | null;
            ready: boolean;
            chain: components["schemas"]["Cause"][];
            queue: components["schemas"]["QueueState"];
            /** @description Tasks that run on it. */
            running: components["schemas"]["Ahead"][];
            quota?: components["schemas"]["QuotaState"] | null;
            settings: components["schemas"]["Setting"][];
            settingsError?: string | null;
            next: string[];
        };
        /** @description How busy an Agent is. */
        AgentLoad: {
            namespace: string;
            name: string;
            phase?: string | null;
            ready: boolean;
            slots: components["schemas"]["Slots"];
            queueLength: number;
        };
        /** @description An Agent. */
        AgentResponse: components["schemas"]["Identity"] & {
            /** @description What it is for. */
            profile?: string | null;
            templateRef?: components["schemas"]["NameRef"] | null;
            executorImage?: string | null;
            agentImage?: string | null;
            attachImage?: string | null;
            workspaceDir?: string | null;
            serviceAccountName?: string | null;
            contextsCount: number;
            credentialsCount: number;
            skillsCount: number;
            pluginsCount: number;
            /** Format: int32 */
            maxConcurrentTasks?: number | null;
            quota?: Record<string, unknown> | null;
            /** @description Names of Secrets, never their values. */
            credentials: components["schemas"]["Credential"][];
            contexts: components["schemas"]["ContextSummary"][];
            skills?: Record<string, unknown>[] | null;
            plugins?: Record<string, unknown>[] | null;
            /** @description OpenCode's own configuration. */
            config?: Record<string, unknown> | null;
            standby?: Record<string, unknown> | null;
            share?: components["schemas"]["ShareSummary"] | null;
            conditions: components["schemas"]["Condition"][];
            serverStatus: components["schemas"]["ServerStatus"];
            /** @description Pending, Running, Failed or Suspended. */
            phase?: string | null;
            /** @description Whether its spec says that it is suspended. */
            suspend: boolean;
            /** @description User or Standby, when it is suspended. */
            suspendedBy?: string | null;
            /** @description Tasks that run on it, and how many may. */
            slots: components["schemas"]["Slots"];
            /** @description Tasks that wait for it. */
            queueLength: number;
            modelRef?: Record<string, unknown> | null;
            /** @description Model that it uses, as provider/model. */
            resolvedModel?: string | null;
            tools?: Record<string, unknown>[] | null;
            persistence?: Record<string, unknown> | null;
        };
        /** @description An AgentTemplate. */
        AgentTemplateResponse: components["schemas"]["Identity"] & {
            executorImage?: string | null;
            agentImage?: string | null;
            attachImage?: string | null;
            workspaceDir?: string | null;
            serviceAccountName?: string | null;
            contextsCount: number;
            credentialsCount: number;
            skillsCount: number;
            pluginsCount: number;
            /** Format: int32 */
            maxConcurrentTasks?: number | null;
            quota?: Record<string, unknown> | null;
            /** @description Names of Secrets, never their values. */
            credentials: components["schemas"]["Credential"][];
            contexts: components["schemas"]["ContextSummary"][];
            skills?: Record<string, unknown>[] | null;
            plugins?: Record<string, unknown>[] | null;
            /** @description OpenCode's own configuration. */
            config?: Record<string, unknown> | null;
            modelRef?: Record<string, unknown> | null;
            conditions: components["schemas"]["Condition"][];
            /** @description Agents that use it. */
            agentCount: number;
            /** @description Tasks that run on it or wait for it. */
            taskCount: number;
        };
        /** @description Agents in numbers. */
        AgentTotals: {
            total: number;
            ready: number;
            suspended: number;
            items: components["schemas"]["AgentLoad"][];
        };
        /** @description A Task that runs or goes before. */
        Ahead: {
            name: string;
            phase: string;
            /** Format: int32 */
            priority: number;
            /** Format: date-time */
            createdAt?: string | null;
            /** Format: date-time */
            startTime?: string | null;
        };
        /** @description The answers, in order. */
        Allowed: {
            allowed: boolean[];
        };
        /** @description How to log in here. */
        AuthenticationInfo: {
            /** @description Reading needs no login. */
            anonymous: boolean;
            /** @description Neither does writing. */
            anonymousWrite: boolean;
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
        /** @description One link of a chain of causes. */
        Cause: {
            level: components["schemas"]["Level"];
            /** @description Stable word. */
            reason?: string | null;
            /** @description The same as a sentence. */
            message: string;
            object?: components["schemas"]["ObjectName"] | null;
            /**
             * Format: date-time
             * @description Since when.
             */
            since?: string | null;
        };
        /** @description May I do this? */
        Check: {
            verb: string;
            resource: string;
            /** @description kubeopencode.io when unset. */
            group?: string | null;
            namespace?: string | null;
            name?: string | null;
            subresource?: string | null;
        };
        /** @description Questions about rights. */
        Checks: {
            checks: components["schemas"]["Check"][];
        };
        /** @description One condition of an object. */
        Condition: {
            /** @description What it tells of. */
            type: string;
            /** @description True, False or Unknown. */
            status: string;
            /** @description Stable word. */
            reason: string;
            /** @description The same as a sentence. */
            message: string;
            /**
             * Format: date-time
             * @description Since when.
             */
            lastTransitionTime?: string | null;
        };
        /** @description The settings of the whole platform. */
        ConfigResponse: components["schemas"]["Identity"] & {
            systemImage?: Record<string, unknown> | null;
            cleanup?: Record<string, unknown> | null;
            proxy?: Record<string, unknown> | null;
            clusterDomain?: string | null;
            observability?: Record<string, unknown> | null;
            defaults?: Record<string, unknown> | null;
            conditions: components["schemas"]["Condition"][];
        };
        /** @description One container of a Task's Pod. */
        ContainerState: {
            /** @description Its name. */
            name: string;
            /** @description Whether it prepares the work. */
            init: boolean;
            /** @description waiting, running or terminated. */
            state: string;
            /**
             * Format: int32
             * @description How it ended.
             */
            exitCode?: number | null;
        };
        /** @description The containers of a Task's Pod. */
        Containers: {
            containers: components["schemas"]["ContainerState"][];
        };
        /** @description A context, without its content. */
        ContextSummary: {
            name?: string | null;
            description?: string | null;
            /** @description Text, ConfigMap, Git, Runtime or URL. */
            type: string;
            mountPath?: string | null;
            sync?: Record<string, unknown> | null;
        };
        /** @description A Task to create, in short. */
        CreateTask: {
            /** @description Its name; one is made up when unset. */
            name?: string | null;
            /** @description What to do, in plain words. */
            description: string;
            agentRef?: components["schemas"]["NameRef"] | null;
            templateRef?: components["schemas"]["NameRef"] | null;
            /** @description Stop after this time, such as 30m. */
            timeout?: string | null;
            /**
             * Format: int32
             * @description Higher goes first in the queue.
             */
            priority?: number | null;
            /** @description What the agent should know: Text, ConfigMap, Git, Runtime or URL, as in the Task's spec. */
            contexts?: Record<string, unknown>[] | null;
            /** @description Tasks that must end first. */
            dependsOn?: Record<string, unknown>[] | null;
            /** @description Labels of the Task. */
            labels?: {
                [key: string]: string;
            } | null;
            /** @description Annotations of the Task. */
            annotations?: {
                [key: string]: string;
            } | null;
            budget?: Record<string, unknown> | null;
            approval?: Record<string, unknown> | null;
            retry?: Record<string, unknown> | null;
            workspace?: Record<string, unknown> | null;
            artifacts?: Record<string, unknown>[] | null;
            outputs?: string[] | null;
            startupTimeout?: string | null;
            stallTimeout?: string | null;
            instructionRefs?: Record<string, unknown>[] | null;
            tools?: Record<string, unknown>[] | null;
        };
        /** @description A Secret that an agent gets, by name. */
        Credential: {
            name: string;
            secretRef: Record<string, unknown>;
            mountPath?: string | null;
            env?: string | null;
        };
        /** @description A CronTask. */
        CronTaskResponse: components["schemas"]["Identity"] & {
            schedule: string;
            timeZone?: string | null;
            /** @description Allow, Forbid or Replace. */
            concurrencyPolicy: string;
            suspend: boolean;
            /** Format: int32 */
            maxRetainedTasks: number;
            /** Format: int64 */
            startingDeadlineSeconds?: number | null;
            /**
             * Format: int32
             * @description Tasks of it that have not finished.
             */
            active: number;
            /** @description Their names. */
            activeTasks: string[];
            /** Format: date-time */
            lastScheduleTime?: string | null;
            /** Format: date-time */
            lastSuccessfulTime?: string | null;
            /** Format: date-time */
            nextScheduleTime?: string | null;
            /** Format: int64 */
            totalExecutions: number;
            taskTemplate: components["schemas"]["CronTaskTemplate"];
            conditions: components["schemas"]["Condition"][];
        };
        /** @description The Task that a CronTask creates. */
        CronTaskTemplate: {
            description?: string | null;
            agentRef?: components["schemas"]["NameRef"] | null;
            templateRef?: components["schemas"]["NameRef"] | null;
            timeout?: string | null;
            contexts?: Record<string, unknown>[] | null;
        };
        /** @description CronTasks in numbers. */
        CronTotals: {
            total: number;
            suspended: number;
            /** @description The five that are due next. */
            next: components["schemas"]["Due"][];
        };
        /** @description Where a dependency stands. */
        DependencyState: {
            task: string;
            /** @description Succeeded, Failed or Finished. */
            condition: string;
            phase?: string | null;
            met: boolean;
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
        /** @description What went wrong, in words for a person and for a program. */
        ErrorBody: {
            /** @description Stable word, such as NotFound. */
            error: string;
            /** @description The same as a sentence. */
            message: string;
            /**
             * Format: int32
             * @description HTTP status code.
             */
            code: number;
            /** @description Path of the field that is wrong. */
            field?: string | null;
            /** @description All of them, when there is more than one. */
            fields?: components["schemas"]["FieldError"][] | null;
        };
        /** @description One field that is wrong. */
        FieldError: {
            /** @description Its path, such as `spec.contexts[0].text`. */
            field: string;
            /** @description What is wrong with it. */
            message: string;
        };
        /** @description Whether an asset is there. */
        Found: {
            /** @description Ready or Unavailable; absent before the first look. */
            phase?: string | null;
            /** Format: date-time */
            lastChecked?: string | null;
            /** @description Why it is not there. */
            message?: string | null;
        };
        /** @description Objects and who uses them. */
        Graph: {
            nodes: components["schemas"]["Node"][];
            /** @description From what is used to who uses it. */
            edges: components["schemas"]["Edge"][];
            /** @description Whether there is more than is shown. */
            truncated: boolean;
        };
        /** @description The server lives. */
        Health: {
            status: string;
            version: string;
            uptime: string;
        };
        /** @description What every object tells of itself. */
        Identity: {
            /** @description Its name. */
            name: string;
            /** @description Its namespace. */
            namespace?: string | null;
            /** @description Its UID. */
            uid?: string | null;
            /** @description Its version; send it back with a change to be told of a change in between. */
            resourceVersion?: string | null;
            /**
             * Format: int64
             * @description Counts changes of its spec.
             */
            generation?: number | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            createdAt?: string | null;
            /**
             * Format: date-time
             * @description Since when it is being deleted.
             */
            deletionTimestamp?: string | null;
            /** @description Its labels. */
            labels?: {
                [key: string]: string;
            } | null;
        };
        /** @description An image of the catalogue. */
        Image: components["schemas"]["Found"] & {
            name: string;
            image: string;
            metadata?: Record<string, unknown> | null;
            digest?: string | null;
        };
        /** @description About this server. */
        Info: {
            version: string;
            authentication: components["schemas"]["AuthenticationInfo"];
            features: string[];
        };
        /**
         * @description How bad a cause is.
         * @enum {string}
         */
        Level: "info" | "wait" | "error" | "done";
        /** @description How much of a log is kept. */
        LogState: {
            /** Format: int64 */
            lines?: number | null;
            /** Format: int64 */
            bytes?: number | null;
            complete?: boolean | null;
        };
        /** @description A token to log in with. */
        LoginRequest: {
            token: string;
        };
        /** @description Names an object of a known kind. */
        NameRef: {
            /** @description Name of the object. */
            name: string;
        };
        /** @description An object. */
        Node: {
            /** @description Kind/namespace/name. */
            id: string;
            kind: string;
            namespace: string;
            name: string;
            ready?: boolean | null;
            /** @description False: something refers to it, and it is not there. Absent: not known. */
            exists?: boolean | null;
            detail?: string | null;
        };
        /** @description Names an object of any kind. */
        ObjectName: {
            /** @description Its kind. */
            kind?: string | null;
            /** @description Its namespace. */
            namespace?: string | null;
            /** @description Its name. */
            name: string;
        };
        /** @description An object of any kind: identity, spec and status as in its definition. */
        ObjectResponse: components["schemas"]["Identity"] & {
            /** @description Its kind. */
            kind: string;
            /** @description Whether it works, as far as its conditions tell. */
            ready?: boolean | null;
            conditions: components["schemas"]["Condition"][];
            spec: Record<string, unknown>;
            /** @description Its status without conditions. */
            status?: Record<string, unknown> | null;
        };
        /** @description Where a page lies in the whole list. */
        Pagination: {
            /** @description Most objects of a page. */
            limit: number;
            /** @description Objects before this page. */
            offset: number;
            /** @description Objects in all. */
            totalCount: number;
            /** @description Whether another page follows. */
            hasMore: boolean;
        };
        /** @description A permission that an agent asks for, as OpenCode tells it. */
        Permission: {
            /** @description Answer under this id. */
            id: string;
            /** @description The session that waits. */
            sessionID: string;
            /** @description Which permission, such as bash. */
            permission?: string | null;
            /** @description What exactly is asked for. */
            patterns?: string[] | null;
            /** @description Details of the tool. */
            metadata?: Record<string, unknown> | null;
            /** @description What an answer "always" would allow from now on. */
            always?: string[] | null;
        };
        /** @description The answer to a permission request. */
        PermissionReply: {
            /** @description Allow once, allow always, or reject. */
            reply: components["schemas"]["Reply"];
            /** @description Told to the agent with a rejection, so that it can go on in another way. */
            message?: string | null;
        };
        /** @description Permissions that an agent asks for. */
        Permissions: {
            permissions: components["schemas"]["Permission"][];
        };
        /** @description A plugin of the catalogue. */
        Plugin: components["schemas"]["Found"] & {
            name: string;
            plugin: Record<string, unknown>;
            metadata?: Record<string, unknown> | null;
            resolvedVersion?: string | null;
        };
        /** @description The queue of an Agent or template. */
        QueueState: {
            target: components["schemas"]["ObjectName"];
            /** @description Place of the Task, 1 being next. */
            position?: number | null;
            waiting: number;
            running: number;
            /** Format: int32 */
            maxConcurrentTasks?: number | null;
            /** @description What runs, and what goes before; the first 20. */
            ahead: components["schemas"]["Ahead"][];
        };
        /** @description Starts in the window of a quota. */
        QuotaState: {
            /** Format: int32 */
            maxTaskStarts: number;
            /** Format: int32 */
            windowSeconds: number;
            /** @description Starts in the window that ends now. */
            used: number;
            /**
             * Format: date-time
             * @description When the next may start, if none is left.
             */
            nextStartAt?: string | null;
        };
        /** @description A Registry. */
        RegistryResponse: components["schemas"]["Identity"] & {
            checkInterval?: string | null;
            npmRegistryURL?: string | null;
            images: components["schemas"]["Image"][];
            skills: components["schemas"]["Skill"][];
            plugins: components["schemas"]["Plugin"][];
            summary?: Record<string, unknown> | null;
            conditions: components["schemas"]["Condition"][];
        };
        /**
         * @description How a permission request is answered.
         * @enum {string}
         */
        Reply: "once" | "always" | "reject";
        /** @description The server of an Agent. */
        ServerStatus: {
            deploymentName?: string | null;
            serviceName?: string | null;
            /** @description Address inside the cluster. */
            url?: string | null;
            ready: boolean;
            /** Format: int32 */
            port: number;
            suspended: boolean;
            /** Format: date-time */
            idleSince?: string | null;
            gitSyncStatuses?: Record<string, unknown>[] | null;
        };
        /** @description One resolved setting. */
        Setting: {
            path: string;
            value: unknown;
            /** @description `{"from": "Template", "name": "base"}`. */
            origin: Record<string, unknown>;
            /** @description The origin in words. */
            originText: string;
        };
        /** @description How to share. */
        ShareRequest: {
            /** @description The link opens; true when unset. */
            enabled?: boolean | null;
            /** @description It stops opening after this time, such as 24h. */
            expiresIn?: string | null;
            /** @description Only from these addresses or ranges. */
            allowedIPs?: string[] | null;
        };
        /** @description A share link with its token, for those who may read its Secret. */
        ShareResponse: {
            enabled: boolean;
            active: boolean;
            /** @description Only for those who may read its Secret. */
            token?: string | null;
            /** @description Path of the link. */
            path?: string | null;
            /** Format: date-time */
            expiresAt?: string | null;
            allowedIPs?: string[] | null;
        };
        /** @description A share link, without its token. */
        ShareSummary: {
            enabled: boolean;
            active: boolean;
            secretName?: string | null;
            url?: string | null;
            /** Format: date-time */
            expiresAt?: string | null;
            allowedIPs?: string[] | null;
        };
        /** @description A collection of skills of the catalogue. */
        Skill: components["schemas"]["Found"] & {
            name: string;
            git: Record<string, unknown>;
            metadata?: Record<string, unknown> | null;
            latestCommit?: string | null;
        };
        /** @description Slots of an Agent. */
        Slots: {
            /** @description Tasks that run. */
            used: number;
            /**
             * Format: int32
             * @description Tasks that may run at once; any number when absent.
             */
            total?: number | null;
        };
        /** @description What goes on. */
        Summary: {
            tasks: components["schemas"]["TaskTotals"];
            usage: components["schemas"]["UsageTotals"];
            agents: components["schemas"]["AgentTotals"];
            cronTasks: components["schemas"]["CronTotals"];
            /** @description The ten newest Tasks. */
            recent: components["schemas"]["TaskResponse"][];
        };
        /** @description Why a Task is where it is. */
        TaskExplanation: {
            task: components["schemas"]["ObjectName"];
            phase: string;
            reason?: string | null;
            message?: string | null;
            /** @description From what is seen to what caused it. */
            chain: components["schemas"]["Cause"][];
            queue?: components["schemas"]["QueueState"] | null;
            quota?: components["schemas"]["QuotaState"] | null;
            dependencies: components["schemas"]["DependencyState"][];
            /** @description The settings of the run, each with its origin. */
            settings: components["schemas"]["Setting"][];
            /** @description Why the settings cannot be told. */
            settingsError?: string | null;
            /** @description What a person can do. */
            next: string[];
        };
        /** @description What a run produced. */
        TaskOutcome: {
            /** @description The agent's last words, shortened. */
            summary?: string | null;
            /** @description Declared outputs; only in details. */
            outputs?: {
                [key: string]: string;
            } | null;
        };
        /** @description A Task. */
        TaskResponse: components["schemas"]["Identity"] & {
            /** @description Pending, Queued, Running, Completed or Failed. */
            phase: string;
            /** @description What to do. Lists show the beginning. */
            description?: string | null;
            agentRef?: components["schemas"]["NameRef"] | null;
            templateRef?: components["schemas"]["NameRef"] | null;
            /** @description Stop after this time. */
            timeout?: string | null;
            /** @description Pod of the current run. */
            podName?: string | null;
            /** @description The OpenCode session. */
            session?: Record<string, unknown> | null;
            /**
             * Format: date-time
             * @description When the work began.
             */
            startTime?: string | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            completionTime?: string | null;
            /** @description How long it took or takes, such as 1m5s. */
            duration?: string | null;
            /**
             * Format: int64
             * @description The same in seconds.
             */
            durationSeconds?: number | null;
            /** @description Details, by type. */
            conditions: components["schemas"]["Condition"][];
            /** @description Our own annotations (kubeopencode.io/…). */
            annotations?: {
                [key: string]: string;
            } | null;
            /** @description Stable word for why it waits or how it ended. */
            reason?: string | null;
            /** @description The same as a sentence. */
            message?: string | null;
            /**
             * Format: int32
             * @description Exit code of the task container.
             */
            exitCode?: number | null;
            /**
             * Format: int32
             * @description Place in the queue, 1 being next.
             */
            queuePosition?: number | null;
            /**
             * Format: int32
             * @description Higher goes first.
             */
            priority: number;
            /**
             * Format: int64
             * @description Number of the current run.
             */
            runEpoch?: number | null;
            /**
             * Format: int32
             * @description Number of tries so far.
             */
            attempt?: number | null;
            timings?: components["schemas"]["Timings"] | null;
            /** @description Tokens and cost. */
            usage?: Record<string, unknown> | null;
            result?: components["schemas"]["TaskOutcome"] | null;
            logs?: components["schemas"]["LogState"] | null;
            /** @description CronTask that created it. */
            cronTask?: string | null;
            /** @description Tasks that must end first. */
            dependsOn?: Record<string, unknown>[] | null;
            /** @description What the agent is told besides; only in details. */
            contexts?: Record<string, unknown>[] | null;
            /** @description Somebody asked to stop it. */
            stopRequested: boolean;
            /** @description The agent waits for a person's permission. */
            awaitingApproval: boolean;
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
            failed24h: number;
            awaitingApproval: number;
        };
        /** @description When the stages before the start were reached. */
        Timings: {
            /** Format: date-time */
            queuedAt?: string | null;
            /** Format: date-time */
            admittedAt?: string | null;
            /** Format: date-time */
            podCreatedAt?: string | null;
            /** Format: date-time */
            scheduledAt?: string | null;
            /** Format: date-time */
            preparedAt?: string | null;
        };
        /** @description When a schedule is due next. */
        Upcoming: {
            schedule: string;
            /** @description Zone of the local times. */
            timeZone: string;
            /** @description Nothing happens at these times while it is suspended. */
            suspended: boolean;
            times: components["schemas"]["UpcomingTime"][];
        };
        /** @description One time at which a schedule is due. */
        UpcomingTime: {
            /** Format: date-time */
            at: string;
            /** @description The same on the clocks of the zone, with its offset. */
            local: string;
        };
        /** @description Tokens and cost. */
        UsageTotals: {
            tokens: Record<string, unknown>;
            /** @description Decimal number. */
            cost: string;
            buckets: components["schemas"]["Bucket"][];
        };
        /** @description Who somebody is. */
        WhoAmI: {
            user: string;
            groups: string[];
            anonymous: boolean;
            /** @description Nothing can be changed. */
            readOnly: boolean;
            /** @description bearer, session or anonymous. */
            via: string;
            /** @description Send it as X-KubeOpenCode-CSRF with every change. */
            csrfToken?: string | null;
            /**
             * Format: date-time
             * @description The session ends then.
             */
            expiresAt?: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
