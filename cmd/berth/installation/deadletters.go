package installation

import (
	"context"

	"berth/shared/operation"
)

// DeadLetters returns the dead-letter queues that have messages. The loop must run.
func (i *Installation) DeadLetters(ctx context.Context) (out []operation.DeadLetters, err error) {
	err = i.Loop.Do(ctx, func() {
		for _, q := range i.Runtime.DeadLetters() {
			out = append(out, operation.DeadLetters{Queue: q.Queue, Messages: q.Messages, Since: q.Since.UTC()})
		}
	})
	return out, err
}
