/** What the fields of terms say of the shuffler; a `Device` calls it.
 * @throws InvalidInput for terms that are damaged. */
export function groupsOf(fields: any): object;
