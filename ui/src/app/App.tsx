import { QueryClientProvider } from "@tanstack/react-query";
import { useState } from "react";
import { RouterProvider } from "react-router/dom";
import { makeQueryClient } from "./queryClient";
import { router } from "./routes";

export function App() {
  const [cache] = useState(makeQueryClient);
  return (
    <QueryClientProvider client={cache}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  );
}
