package installation

import (
	"context"

	"berth/shared/embedded"
	"berth/shared/state"
)

// A RecordsHandler handles a batch of stream records. It returns the sequence of the first record to
// deliver again, empty if the batch is done.
type RecordsHandler = func(ctx context.Context, records []state.Record) (retryFrom string, err error)

func (i *Installation) recordsFor(function string, handle RecordsHandler) RecordsHandler {
	return wrapPort(i.options.WrapRecords, function, handle)
}

// watched is the store's stream with an observer that sees all records first.
type watched struct {
	*embedded.Store
	watch func([]state.Record)
}

func (w watched) OnRecords(f func([]state.Record)) {
	w.Store.OnRecords(func(records []state.Record) {
		if w.watch != nil {
			w.watch(records)
		}
		f(records)
	})
}
