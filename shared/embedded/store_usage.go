package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"berth/shared/state"
)

// DynamoDB's limits (service quotas: items, transactions, keys). They hold here too, so that what
// works on one tier works on the others.
const (
	maxItem        = 400 << 10 // bytes
	maxTransaction = 4 << 20   // bytes
	maxStatements  = 100       // per transaction
	maxPartition   = 2048      // bytes of a partition key
	maxSort        = 1024      // bytes of a sort key
)

// Usage is what DynamoDB would have billed for the calls so far: a read unit per 4 KB (half of one
// for Peek), a write unit per KB of the larger of the row before and after, twice that in a
// transaction of more than one row. A write that its condition refused is billed by the row that is
// there. Deletions by expiry are free.
type Usage struct {
	ReadUnits  float64
	WriteUnits float64
	Requests   int64 // calls that were answered, conflicts included
}

// Usage returns the bill since the store was opened.
func (s *Store) Usage() Usage {
	return Usage{
		ReadUnits:  float64(s.usage.readHalves.Load()) / 2,
		WriteUnits: float64(s.usage.writes.Load()),
		Requests:   s.usage.requests.Load(),
	}
}

// usageCounter counts in halves of a read unit, because Peek costs half of one and atomic counters
// are whole.
type usageCounter struct {
	readHalves atomic.Int64
	writes     atomic.Int64
	requests   atomic.Int64
}

// Prices of 4 KB read, in halves of a read unit.
const (
	consistentRead = 2
	eventualRead   = 1
)

// billedUnits returns how many units of some bytes a size is billed as, at least one.
func billedUnits(size, unit int) int64 { return int64(max(1, (size+unit-1)/unit)) }

func (u *usageCounter) countRead(size int, price int64) {
	u.requests.Add(1)
	u.countPart(size, price)
}

// countPart bills what a call reads of one partition key.
func (u *usageCounter) countPart(size int, price int64) {
	u.readHalves.Add(billedUnits(size, 4<<10) * price)
}

// commitBill is the price of one write or commit.
type commitBill struct {
	units      int64 // write units, before a transaction doubles them
	statements int
	size       int // bytes of all rows after it
	// byPartition are the units by partition key. It is nil without a [Throughput].
	byPartition map[string]int64
}

// countWrite bills the larger of the row before and after. A deletion of an absent row costs a
// unit, too.
func (b *commitBill) countWrite(key state.Key, c rowChange) {
	size := 0
	if c.old != nil {
		size = c.old.size
	}
	if c.new != nil {
		size = max(size, c.new.size)
		b.size += c.new.size
	}
	n := billedUnits(size, 1<<10)
	b.units += n
	b.statements++
	if b.byPartition != nil {
		b.byPartition[key.PartitionKey()] += n
	}
}

// partitionUnits returns the write units by partition key.
func (b *commitBill) partitionUnits() map[string]int64 {
	if b.statements > 1 {
		for partition := range b.byPartition {
			b.byPartition[partition] *= 2
		}
	}
	return b.byPartition
}

func (u *usageCounter) countCommit(b commitBill) {
	if b.statements > 1 {
		b.units *= 2
	}
	u.requests.Add(1)
	u.writes.Add(b.units)
}

// estimateItemSize returns the size of a row as DynamoDB counts it, taken from its JSON: the bytes
// of names and texts, about half a byte per digit, one for a bool or a null, and for a list or map
// 3 and one per element (DynamoDB, item sizes and formats). Example: {"a":"xyz","b":12} is 4 bytes
// for a, 3 for b, and those of the sort key. It may be a few bytes off where the JSON escapes
// characters.
func estimateItemSize(key state.Key, data []byte) int {
	n, depth := len("sk")+len(key.Sort), 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end, escapes := findTextEnd(data, i+1)
			n += end - i - 1 - escapes
			i = end
		case c == '{' || c == '[':
			if depth > 0 {
				n += 4
			}
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			if depth > 1 {
				n++
			}
		case c == 't' || c == 'n':
			n++
			i += len("rue")
		case c == 'f':
			n++
			i += len("alse")
		case c != ':':
			end := findNumberEnd(data, i)
			n += (end-i+1)/2 + 1
			i = end - 1
		}
	}
	return n
}

// findTextEnd returns where the text that begins at i ends, and how many of its bytes only escape
// others: 1 for \n, 4 for a \u and its digits.
func findTextEnd(data []byte, i int) (end, escapes int) {
	for ; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
			escapes++
			if data[i] == 'u' {
				escapes += 3
			}
		}
	}
	return i, escapes
}

func findNumberEnd(data []byte, i int) int {
	for ; i < len(data); i++ {
		switch data[i] {
		case ',', '}', ']':
			return i
		}
	}
	return i
}

// checkKey refuses keys that DynamoDB refuses, and those that would not fit into the file's layout.
func checkKey(key state.Key) error {
	switch {
	case key.Cluster == "" || key.Sort == "":
		return errors.New("a key must not be empty")
	case len(key.Cluster) > maxPartition || len(key.Sort) > maxSort:
		return fmt.Errorf("a cluster's name may have %d bytes and a sort key %d", maxPartition, maxSort)
	case !utf8.ValidString(key.Cluster) || !utf8.ValidString(key.Sort) || strings.Contains(key.Cluster, keySeparator):
		return fmt.Errorf("the key %q, %q is not valid text", key.Cluster, key.Sort)
	}
	return nil
}

// checkWrite refuses the write changes nothing, and a row whose key belongs to no kind.
func checkWrite(w state.Write) error {
	if w.Put == nil && w.Delete == nil && w.Stop == nil && w.Claim == nil && w.Observe == nil {
		return errors.New("the write changes nothing")
	}
	key := w.Key()
	if err := checkKey(key); err != nil {
		return err
	}
	if w.Put != nil && state.EmptyRow(key.Sort) == nil {
		return fmt.Errorf("no kind of row has the key %q", key.Sort)
	}
	return nil
}

// checkCommit refuses what DynamoDB's transactions refuse, before anything is decided. The check of
// the version is a statement on the meta row.
func checkCommit(c state.Commit) error {
	statements := len(c.Writes)
	seen := make(map[state.Key]bool, len(c.Writes)+1)
	if c.Version >= 0 {
		statements++
		key := state.Key{Cluster: c.Cluster, Sort: state.PrefixMeta}
		if err := checkKey(key); err != nil {
			return err
		}
		seen[key] = true
	}
	if statements > maxStatements {
		return fmt.Errorf("%d writes, at most %d are allowed", len(c.Writes), maxStatements-statements+len(c.Writes))
	}
	for _, w := range c.Writes {
		if err := checkWrite(w); err != nil {
			return err
		}
		key := w.Key()
		if seen[key] {
			return fmt.Errorf("row %s is named twice", key.Sort)
		}
		seen[key] = true
	}
	return nil
}
