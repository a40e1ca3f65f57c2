package embedded

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sealRows numbers the changes and continues the hash over them:
//
//	hash(n) = SHA-256(hash(n-1), lengths of cluster, sort key and row, cluster, sort key, row)
//
// The lengths, of 4 bytes each, keep two different changes from being the same bytes. The row is
// hashed by attribute, sorted by name, so that the order of fields in Go does not matter. A
// deletion has an empty row.
func (g *commitGroup) sealRows() {
	d := g.store.digest
	for _, c := range g.changes {
		g.sequence++
		key := c.changedKey()
		var data []byte
		if c.new != nil {
			data = c.new.data
		}
		d.Reset()
		d.Write(g.hash[:])
		var lengths [12]byte
		binary.BigEndian.PutUint32(lengths[0:], uint32(len(key.Cluster))) //nolint:gosec // checkKey bounds it
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(key.Sort)))    //nolint:gosec // checkKey bounds it
		binary.BigEndian.PutUint32(lengths[8:], uint32(len(data)))        //nolint:gosec // maxItem bounds it
		d.Write(lengths[:])
		d.Write([]byte(key.Cluster))
		d.Write([]byte(key.Sort))
		for _, member := range sortedMembers(data) {
			d.Write(member)
		}
		d.Sum(g.hash[:0])
	}
}

// sortedMembers splits an encoded row into its attributes, sorted by name. The hash must not
// depend on the order in which Go's struct declares them: {"b":[2,3],"a":1} and {"a":1,"b":[2,3]}
// are the same row. Objects within an attribute keep their order.
func sortedMembers(row []byte) [][]byte {
	var members [][]byte
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(row); i++ {
		switch c := row[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				start = i + 1
			}
		case c == '}' || c == ']':
			if depth--; depth == 0 && i > start {
				members = append(members, row[start:i])
			}
		case c == ',' && depth == 1:
			members = append(members, row[start:i])
			start = i + 1
		}
	}
	slices.SortFunc(members, bytes.Compare)
	return members
}
