package dynamo

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"berth/shared/state"
)

// visitSpread calls visit with each row of a range whose rows have several partition keys, in the
// order of their sort keys. It reads all partitions at the same time, and merges them.
func (s *State) visitSpread(
	ctx context.Context, r state.Range, partitions []string, visit func(state.Row) error,
) error {
	unmoved, err := earlierLayout{s}.listUnmoved(ctx, r) // before today's places, see readRow
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var sources []*source
	for _, partition := range partitions {
		sources = append(sources, s.readAhead(ctx, r, partition, true))
	}
	if !r.IsAllSpread() {
		sources = append(sources, s.readAhead(ctx, r, r.Cluster, false))
	}
	if len(unmoved) > 0 {
		sources = append(sources, &source{rows: unmoved, pages: closedPages})
	}
	return mergeSources(sources, r.Limit, visit)
}

// mergeSources calls visit with the rows of all sources in the order of their sort keys, at most
// limit unless that is 0. Of rows with the same key it takes the first source's.
func mergeSources(sources []*source, limit int, visit func(state.Row) error) error {
	last := ""
	for visited := 0; limit == 0 || visited < limit; {
		var first *source
		for _, src := range sources {
			if err := src.fill(); err != nil {
				return err
			}
			if len(src.rows) > 0 && (first == nil || cmp.Less(src.firstKey(), first.firstKey())) {
				first = src
			}
		}
		if first == nil {
			return nil
		}
		row, key := first.rows[0], first.firstKey()
		first.rows, first.key = first.rows[1:], ""
		if key == last {
			continue
		}
		last = key
		visited++
		if err := visit(row); err != nil {
			return err
		}
	}
	return nil
}

// A source is the rows of a range that have one partition key, in order. A goroutine reads the next
// page while the rows of the last one are taken.
type source struct {
	rows  []state.Row
	key   string // of the first row, once it was asked for
	pages <-chan page
}

type page struct {
	rows []state.Row
	err  error
}

var closedPages = func() <-chan page {
	c := make(chan page)
	close(c)
	return c
}()

// fill reads the next page if there is no row left.
func (src *source) fill() error {
	for len(src.rows) == 0 {
		p, more := <-src.pages
		if !more {
			return nil
		}
		if p.err != nil {
			return p.err
		}
		src.rows = p.rows
	}
	return nil
}

func (src *source) firstKey() string {
	if src.key == "" {
		src.key = state.KeyOf(src.rows[0]).Sort
	}
	return src.key
}

// spreadPage is how many rows of a partition key are read at a time where all are wanted: there are
// [state.TaskPartitions] of them, and two pages of each may be in memory.
const spreadPage = 500

var errFull = errors.New("the page is full")

// readAhead starts to read the rows of a range that have a partition key. It ends with ctx. spread
// says that the others of the range have other keys.
func (s *State) readAhead(ctx context.Context, r state.Range, partition string, spread bool) *source {
	pages := make(chan page)
	part := r
	part.Limit = 0
	in := s.queryInput(part, partition)
	size := spreadPage
	if r.Limit > 0 {
		size = min(size, r.Limit)
		if spread { // twice what its share of a page is, so that a second call is rare
			size = min(size, 2*r.Limit/state.TaskPartitions+4)
		}
	}
	if in != nil {
		in.Limit = aws.Int32(int32(size)) //nolint:gosec // bounded
	}
	send := func(p page) bool {
		select {
		case pages <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(pages)
		var rows []state.Row
		err := s.visitPartition(ctx, part, in, func(row state.Row) error {
			if rows = append(rows, row); len(rows) < size {
				return nil
			}
			full := slices.Clip(rows)
			rows = make([]state.Row, 0, size)
			if !send(page{rows: full}) {
				return errFull
			}
			return nil
		})
		if errors.Is(err, errFull) {
			return
		}
		if send(page{rows: rows}) && err != nil {
			send(page{err: err})
		}
	}()
	return &source{pages: pages}
}
