// Package eventsource translates between Lambda and a handler.
//
// In comes one event of any source in template.yaml: a batch of an SQS queue or of the table's
// stream, a schedule, a request to the function URL, or a bare event of EventBridge.
// [Function.Invoke] tells them apart, hands over what they carry as nouns of packages state and
// cluster, and answers in the form that the source expects, including which single messages or
// records failed. It decides nothing.
//
// An error that no retry can mend, a [cluster.Drop], is logged and acknowledged. Any other error
// makes Lambda deliver the event again, so handlers must accept repeated events.
//
// Start reading at [Function].
package eventsource
