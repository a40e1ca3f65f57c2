// Package console shows a cluster in a browser: what is wrong and why, a map of its instances, its
// services, tasks, instances and events.
//
// [New] makes a handler of pages from a [Source]. [StoreSource] follows the store of an embedded
// Berth, [ClientSource] asks one on AWS. Pages are rendered here, work without JavaScript, and only
// read. A few lines of script replace a page's content when the source reports a change.
//
// Nothing is read and nothing is followed while no page is open. Start with console.go, then
// store.go.
package console
