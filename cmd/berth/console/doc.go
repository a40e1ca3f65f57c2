// Package console shows a cluster in a browser: what is wrong and why, a map of its instances, its
// services, tasks, instances and events, where more tasks would go, and how to balance it.
//
// [New] makes a handler of pages from a [Source]. [StoreSource] follows the store of an embedded
// Berth, [ClientSource] asks one on AWS. Pages are rendered here and work without JavaScript.
// A few lines of script replace a page's content when the source reports a change.
//
// Pages only read, except for the form of change.go: it asks before one call of the [API], and is
// refused without the token that only a page of this console has.
//
// Nothing is read and nothing is followed while no page is open. Start with console.go, then
// store.go.
package console
