import { useQuery } from "@tanstack/react-query";
import { ApiError } from "../api/error";
import { keys } from "../api/keys";
import { type ArtifactPlace, fetchFiles } from "../api/results";

/** The file at a path of the page's address. */
export function useFile(place: ArtifactPlace, path: string | undefined) {
  return useQuery({
    queryKey: [...keys.artifacts(place.namespace, place.task), "file", place.epoch, place.name, path],
    queryFn: async ({ signal }) => {
      // A path sorts before every other path that begins with it.
      const page = await fetchFiles(place, { prefix: path, limit: 1 }, signal);
      const [file] = page.files;
      if (file?.path === path && file) return file;
      throw new ApiError(404, "NotFound", `Artifact '${place.name}' has no file '${path}'.`);
    },
    enabled: path !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
}
