import { Link } from "react-router";
import { type Kind, pageOf } from "../api/kinds";
import type { Identified } from "../api/types";
import { Ago } from "../components/Ago";
import type { Column } from "./columns";

/** The first columns of most lists. */
export function nameColumns<T extends Identified>(kind: Kind): Column<T>[] {
  return [
    {
      title: "Name",
      sort: "name",
      width: "minmax(170px, 1.8fr)",
      phone: "title",
      cell: (item) => <Link to={pageOf(kind.kind, item.namespace, item.name) ?? kind.list}>{item.name}</Link>,
    },
    {
      title: "Namespace",
      width: "minmax(90px, 0.8fr)",
      phone: "line",
      cell: (item) => <span className="quiet">{item.namespace}</span>,
    },
  ];
}

/** The last column of every list. */
export function ageColumn<T extends Identified>(): Column<T> {
  return {
    title: "Age",
    sort: "createdAt",
    width: "72px",
    end: true,
    phone: "line",
    cell: (item) => <Ago at={item.createdAt} />,
  };
}
