import { lazy, Suspense } from "react";
import { createBrowserRouter, Navigate } from "react-router";
import {
  AGENT_TOOL,
  AGENT_WORKFLOW,
  INSTRUCTION,
  MCP_SERVER,
  MODEL,
  MODEL_PROVIDER,
  REMOTE_MCP_SERVER,
} from "../api/kinds";
import { NotFound } from "../pages/NotFound";
import { Layout } from "./Layout";
import { LOGIN } from "./Login";
import { PageCrash } from "./PageCrash";
import { PageSkeleton } from "./PageSkeleton";
import { RequireSession } from "./RequireSession";

const Dashboard = lazy(() => import("../pages/dashboard/Dashboard"));
const TaskList = lazy(() => import("../pages/tasks/TaskList"));
const TaskCreate = lazy(() => import("../pages/tasks/TaskCreate"));
const TaskDetail = lazy(() => import("../pages/tasks/TaskDetail"));
const CronTaskList = lazy(() => import("../pages/crontasks/CronTaskList"));
const CronTaskCreate = lazy(() => import("../pages/crontasks/CronTaskCreate"));
const CronTaskDetail = lazy(() => import("../pages/crontasks/CronTaskDetail"));
const AgentList = lazy(() => import("../pages/agents/AgentList"));
const AgentCreate = lazy(() => import("../pages/agents/AgentCreate"));
const AgentDetail = lazy(() => import("../pages/agents/AgentDetail"));
const TemplateList = lazy(() => import("../pages/templates/TemplateList"));
const TemplateCreate = lazy(() => import("../pages/templates/TemplateCreate"));
const TemplateDetail = lazy(() => import("../pages/templates/TemplateDetail"));
const RegistryList = lazy(() => import("../pages/registries/RegistryList"));
const RegistryCreate = lazy(() => import("../pages/registries/RegistryCreate"));
const RegistryDetail = lazy(() => import("../pages/registries/RegistryDetail"));
const RegistryAssemble = lazy(() => import("../pages/registries/RegistryAssemble"));
const ConfigPage = lazy(() => import("../pages/config/ConfigPage"));
const KindList = lazy(() => import("../pages/kinds/KindList"));
const KindCreate = lazy(() => import("../pages/kinds/KindCreate"));
const KindDetail = lazy(() => import("../pages/kinds/KindDetail"));
const SecretList = lazy(() => import("../pages/secrets/SecretList"));
const SecretCreate = lazy(() => import("../pages/secrets/SecretCreate"));
const SecretDetail = lazy(() => import("../pages/secrets/SecretDetail"));
const SetupPage = lazy(() => import("../pages/setup/SetupPage"));
const GraphPage = lazy(() => import("../pages/graph/GraphPage"));
const SharePage = lazy(() => import("../pages/share/SharePage"));

export const router = createBrowserRouter([
  {
    path: "/s/:token",
    errorElement: <PageCrash />,
    element: (
      <Suspense fallback={<PageSkeleton />}>
        <SharePage />
      </Suspense>
    ),
  },
  {
    element: (
      <RequireSession>
        <Layout />
      </RequireSession>
    ),
    errorElement: <PageCrash />,
    children: [
      {
        errorElement: <PageCrash />,
        children: [
          { path: "/", element: <Dashboard /> },
          { path: "/tasks", element: <TaskList /> },
          { path: "/tasks/create", element: <TaskCreate /> },
          { path: "/tasks/:namespace/:name", element: <TaskDetail /> },
          { path: "/crontasks", element: <CronTaskList /> },
          { path: "/crontasks/create", element: <CronTaskCreate /> },
          { path: "/crontasks/:namespace/:name", element: <CronTaskDetail /> },
          { path: "/agents", element: <AgentList /> },
          { path: "/agents/create", element: <AgentCreate /> },
          { path: "/agents/:namespace/:name", element: <AgentDetail /> },
          { path: "/templates", element: <TemplateList /> },
          { path: "/templates/create", element: <TemplateCreate /> },
          { path: "/templates/:namespace/:name", element: <TemplateDetail /> },
          { path: "/registries", element: <RegistryList /> },
          { path: "/registries/create", element: <RegistryCreate /> },
          { path: "/registries/:namespace/:name", element: <RegistryDetail /> },
          { path: "/registries/:namespace/:name/assemble", element: <RegistryAssemble /> },
          { path: "/config", element: <ConfigPage /> },
          { path: "/models", element: <KindList key="models" kinds={[MODEL]} /> },
          { path: "/providers", element: <KindList key="providers" kinds={[MODEL_PROVIDER]} /> },
          {
            path: "/tools",
            element: <KindList key="tools" title="Tools" kinds={[REMOTE_MCP_SERVER, MCP_SERVER, AGENT_TOOL]} />,
          },
          { path: "/instructions", element: <KindList key="instructions" kinds={[INSTRUCTION]} /> },
          { path: "/workflows", element: <KindList key="workflows" kinds={[AGENT_WORKFLOW]} /> },
          { path: "/kinds/:plural/create", element: <KindCreate /> },
          { path: "/kinds/:plural/:namespace/:name", element: <KindDetail /> },
          { path: "/graph", element: <GraphPage /> },
          { path: "/setup", element: <SetupPage /> },
          { path: "/secrets", element: <SecretList /> },
          { path: "/secrets/create", element: <SecretCreate /> },
          { path: "/secrets/:namespace/:name", element: <SecretDetail /> },
          // Signed-in users do not need the login page.
          { path: LOGIN, element: <Navigate to="/" replace /> },
          { path: "*", element: <NotFound /> },
        ],
      },
    ],
  },
]);
