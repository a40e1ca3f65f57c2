package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"

	bolt "go.etcd.io/bbolt"

	"berth/shared/datafile"
	"berth/shared/state"
)

// The layout of a state file: a bbolt file with
//   - store: format, hash, sequence (of the last record), and position#CONSUMER (of its last
//     acknowledged record);
//   - rows: cluster, keySeparator, sort key → the row's JSON;
//   - stream: sequence (8 bytes, big endian) → a record.
var (
	bucketStore  = []byte("store")
	bucketRows   = []byte("rows")
	bucketStream = []byte("stream")

	keyFormat   = []byte("format")
	keyHash     = []byte("hash")
	keySequence = []byte("sequence")
)

const (
	stateFormat    = "1"
	prefixPosition = "position#"
	keySeparator   = "\x00"
)

// stateFile is the file of a durable store.
type stateFile struct{ *datafile.File }

// openStateFile opens or creates the file.
func openStateFile(path string, report func(err error)) (*stateFile, error) {
	f, err := datafile.Open(path, report)
	if err != nil {
		return nil, fmt.Errorf("opening the state file: %w", err)
	}
	if err := f.Update(createBuckets); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("opening the state file %s: %w", path, err)
	}
	return &stateFile{f}, nil
}

// createBuckets creates the buckets of an empty file, and refuses a file that this version would
// misread.
func createBuckets(tx *bolt.Tx) error {
	if b := tx.Bucket(bucketStore); b != nil {
		if got := string(b.Get(keyFormat)); got != stateFormat {
			return fmt.Errorf(
				"it has format %q and this version reads %q: use the version that wrote it, or choose another "+
					"file", got, stateFormat)
		}
		return nil
	}
	c := tx.Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		if string(name) != datafile.BucketPair {
			return errors.New("it is a database of something else: choose another file")
		}
	}
	for _, name := range [][]byte{bucketStore, bucketRows, bucketStream} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketStore).Put(keyFormat, []byte(stateFormat))
}

// saveCommitGroup makes a group durable, and with it what has been acknowledged of the stream. A
// group without changes and acknowledgements writes nothing.
func (d *stateFile) saveCommitGroup(g *commitGroup) error {
	s := g.store
	s.mu.Lock()
	var positions map[string]uint64
	if s.stream.moved {
		positions = maps.Clone(s.stream.consumers)
		s.stream.moved = false
	}
	trimmed := s.stream.lowestAcknowledged()
	s.mu.Unlock()
	if len(g.changes) == 0 && len(positions) == 0 {
		return nil
	}
	err := d.Update(func(tx *bolt.Tx) error {
		if err := g.saveRowChanges(tx, s.stream.kept); err != nil {
			return err
		}
		for name, p := range positions {
			if err := tx.Bucket(bucketStore).Put([]byte(prefixPosition+name), sequenceKey(p)); err != nil {
				return err
			}
		}
		if len(positions) == 0 {
			return nil
		}
		return trimStreamRecords(tx, trimmed)
	})
	if err != nil {
		s.mu.Lock()
		s.stream.moved = s.stream.moved || len(positions) > 0
		s.mu.Unlock()
	}
	return err
}

// saveRowChanges writes the rows and, if they are kept, the stream records. It writes the hash and
// the last sequence with them, so that the three always agree.
func (g *commitGroup) saveRowChanges(tx *bolt.Tx, keep bool) error {
	rows, records := tx.Bucket(bucketRows), tx.Bucket(bucketStream)
	n := g.sequence - uint64(len(g.changes))
	for _, c := range g.changes {
		n++
		key := []byte(c.changedKey().Cluster + keySeparator + c.changedKey().Sort)
		err := error(nil)
		if c.new == nil {
			err = rows.Delete(key)
		} else {
			err = rows.Put(key, c.new.data)
		}
		if err == nil && keep {
			var record []byte
			if record, err = encodeChange(c); err == nil {
				err = records.Put(sequenceKey(n), record)
			}
		}
		if err != nil {
			return err
		}
	}
	b := tx.Bucket(bucketStore)
	return errors.Join(b.Put(keyHash, g.hash[:]), b.Put(keySequence, sequenceKey(g.sequence)))
}

// trimStreamRecords deletes the records that all consumers have acknowledged. It finds them before it
// deletes the first: until the transaction ends, the pages that deletions have emptied stay, and
// finding the first record walks over all of them.
func trimStreamRecords(tx *bolt.Tx, to uint64) error {
	b := tx.Bucket(bucketStream)
	var acknowledged []uint64
	c := b.Cursor()
	for k, _ := c.First(); k != nil && binary.BigEndian.Uint64(k) <= to; k, _ = c.Next() {
		acknowledged = append(acknowledged, binary.BigEndian.Uint64(k))
	}
	for _, n := range acknowledged {
		if err := b.Delete(sequenceKey(n)); err != nil {
			return err
		}
	}
	return nil
}

// sequenceKey is big endian, so that keys sort as the numbers do.
func sequenceKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// encodeChange returns a record as the file has it: cluster, sort key, row before, row after, each
// with its length before it. An absent row has the length 0.
func encodeChange(c rowChange) ([]byte, error) {
	key := c.changedKey()
	var old, next []byte
	if c.old != nil {
		var err error
		if old, err = state.EncodeRow(c.old.row); err != nil {
			return nil, fmt.Errorf("encoding row %s as it was: %w", key.Sort, err)
		}
	}
	if c.new != nil {
		next = c.new.data
	}
	out := make([]byte, 0, len(key.Cluster)+len(key.Sort)+len(old)+len(next)+4*binary.MaxVarintLen32)
	for _, field := range [][]byte{[]byte(key.Cluster), []byte(key.Sort), old, next} {
		out = append(binary.AppendUvarint(out, uint64(len(field))), field...)
	}
	return out, nil
}

var errRecord = errors.New("a stream record is damaged")

// decodeFields reads what encodeChange wrote.
func decodeFields(data []byte) (fields [4][]byte, err error) {
	for i := range fields {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return fields, errRecord
		}
		fields[i], data = data[used:used+int(n)], data[used+int(n):] //nolint:gosec // bounded by the data
	}
	return fields, nil
}

// loadStore fills an empty store from the file. Rows of kinds that this version does not know stay
// in the file, unseen: a newer version may have written them, and may come back.
func (d *stateFile) loadStore(s *Store) error {
	return d.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketStore)
		copy(s.hash[:], b.Get(keyHash))
		s.sequence = storedSequence(b, keySequence)
		for name := range s.stream.consumers {
			s.stream.consumers[name] = storedSequence(b, []byte(prefixPosition+name))
		}
		if err := tx.Bucket(bucketRows).ForEach(s.loadStoredRow); err != nil {
			return err
		}
		return tx.Bucket(bucketStream).ForEach(s.loadStreamRecord)
	})
}

func storedSequence(b *bolt.Bucket, key []byte) uint64 {
	data := b.Get(key)
	if len(data) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(data)
}

// loadStoredRow adds a row of a kind that this version knows.
func (s *Store) loadStoredRow(k, data []byte) error {
	name, sort, _ := strings.Cut(string(k), keySeparator)
	if state.EmptyRow(sort) == nil {
		return nil
	}
	row, err := state.DecodeRow(sort, data)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	e, err := newStoredRow(row)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	e.data = nil
	s.rows.replace(nil, e)
	if row.Header().Expires > 0 {
		s.expiring.Set(e)
	}
	return nil
}

// loadStreamRecord loads a record that some consumer has not acknowledged.
func (s *Store) loadStreamRecord(k, data []byte) error {
	if len(k) != 8 {
		return errRecord
	}
	n := binary.BigEndian.Uint64(k)
	if !s.stream.kept || n <= s.stream.lowestAcknowledged() {
		return nil
	}
	fields, err := decodeFields(data)
	if err != nil {
		return err
	}
	key := state.Key{Cluster: string(fields[0]), Sort: string(fields[1])}
	if state.EmptyRow(key.Sort) == nil {
		return nil
	}
	r := state.Record{Sequence: formatSequence(n), Key: key, Op: state.Modify}
	if len(fields[2]) == 0 {
		r.Op = state.Insert
	} else if r.Old, err = state.DecodeRow(key.Sort, fields[2]); err != nil {
		return err
	}
	if len(fields[3]) == 0 {
		r.Op = state.Remove
	} else if r.New, err = state.DecodeRow(key.Sort, fields[3]); err != nil {
		return err
	}
	s.stream.records = append(s.stream.records, r)
	return nil
}
