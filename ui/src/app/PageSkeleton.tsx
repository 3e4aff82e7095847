import { Skeleton } from "../components/Skeleton";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { Page } from "./Page";

/** Shown while the code of a page is loading. */
export function PageSkeleton() {
  return (
    <Page>
      <Skeleton width={220} height={26} />
      <SkeletonBlock lines={8} label="Loading the page" />
    </Page>
  );
}
