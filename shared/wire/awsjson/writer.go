package awsjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/document"
	"github.com/aws/smithy-go/encoding"
	smithytime "github.com/aws/smithy-go/time"
)

// A jsonWriter writes the SDK's types as JSON, and completes them, see [EncodeOutput]. Answers have
// up to hundreds of kilobytes and are many, so writers and their memory are used again.
type jsonWriter struct {
	body  []byte
	open  []container // not closed yet, the outermost first
	keyed bool        // the key of the next value is written
	refusal
}

// A container is an unfinished structure, list, map or union.
type container struct {
	schema  *smithy.Schema // of a structure; nil for others
	filled  bool           // it has a value
	members []string       // of a structure, those that it has so far
}

var _ smithy.ShapeSerializer = (*jsonWriter)(nil)

var writers = sync.Pool{New: func() any { return new(jsonWriter) }}

// maxKeptBody is how many bytes a writer keeps for its next answer.
const maxKeptBody = 1 << 20

// release makes the writer free for the next answer.
func (w *jsonWriter) release() {
	w.body, w.open, w.keyed, w.err = w.body[:0], w.open[:0], false, nil
	if cap(w.body) <= maxKeptBody {
		writers.Put(w)
	}
}

// Bytes returns a copy of what was written.
func (w *jsonWriter) Bytes() []byte { return bytes.Clone(w.body) }

// beginValue writes what comes before a value: in a structure the key, and a comma after another
// value.
func (w *jsonWriter) beginValue(s *smithy.Schema) {
	if w.keyed || len(w.open) == 0 {
		w.keyed = false
		return
	}
	w.separate()
	if in := &w.open[len(w.open)-1]; in.schema != nil {
		name := s.MemberName()
		in.members = append(in.members, name)
		w.body = append(w.body, '"') // names of members need no escapes
		w.body = append(w.body, name...)
		w.body = append(w.body, '"', ':')
	}
}

// separate writes a comma unless the innermost container is empty.
func (w *jsonWriter) separate() {
	in := &w.open[len(w.open)-1]
	if in.filled {
		w.body = append(w.body, ',')
	}
	in.filled = true
}

// enter begins a container. The schema is that of a structure, or nil.
func (w *jsonWriter) enter(bracket byte, s *smithy.Schema) {
	w.body = append(w.body, bracket)
	n := len(w.open)
	if n == cap(w.open) {
		w.open = append(w.open, container{schema: s})
		return
	}
	w.open = w.open[:n+1]
	in := &w.open[n]
	in.schema, in.filled, in.members = s, false, in.members[:0]
}

func (w *jsonWriter) leave(bracket byte) {
	w.body, w.open = append(w.body, bracket), w.open[:len(w.open)-1]
}

// WriteStruct begins a structure.
func (w *jsonWriter) WriteStruct(s *smithy.Schema) { w.beginValue(s); w.enter('{', s) }

// CloseStruct adds what is missing and ends the structure.
func (w *jsonWriter) CloseStruct() { w.completeStruct(); w.leave('}') }

// WriteList begins a list.
func (w *jsonWriter) WriteList(s *smithy.Schema) { w.beginValue(s); w.enter('[', nil) }

// CloseList ends a list.
func (w *jsonWriter) CloseList() { w.leave(']') }

// WriteMap begins a map, whose values follow their keys.
func (w *jsonWriter) WriteMap(s *smithy.Schema) { w.beginValue(s); w.enter('{', nil) }

// WriteKey writes the key of a map's next value.
func (w *jsonWriter) WriteKey(_ *smithy.Schema, key string) {
	w.separate()
	w.writeText(key)
	w.body, w.keyed = append(w.body, ':'), true
}

// CloseMap ends a map.
func (w *jsonWriter) CloseMap() { w.leave('}') }

// WriteUnion begins a union, whose only member is the variant.
func (w *jsonWriter) WriteUnion(s, variant *smithy.Schema) {
	w.beginValue(s)
	w.enter('{', nil)
	w.WriteKey(nil, variant.MemberName())
}

// CloseUnion ends a union.
func (w *jsonWriter) CloseUnion() { w.leave('}') }

// WriteBool, WriteInt32 and so on write one value.

func (w *jsonWriter) WriteBool(s *smithy.Schema, v bool) {
	w.beginValue(s)
	w.body = strconv.AppendBool(w.body, v)
}

func (w *jsonWriter) WriteInt32(s *smithy.Schema, v int32) { w.WriteInt64(s, int64(v)) }

func (w *jsonWriter) WriteInt64(s *smithy.Schema, v int64) {
	w.beginValue(s)
	w.body = strconv.AppendInt(w.body, v, 10)
}

func (w *jsonWriter) WriteFloat64(s *smithy.Schema, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		w.err = errors.New("a number is not finite")
		v = 0
	}
	w.beginValue(s)
	w.body = encoding.EncodeFloat(w.body, v, 64)
}

func (w *jsonWriter) WriteString(s *smithy.Schema, v string) {
	w.beginValue(s)
	w.writeText(v)
}

// WriteTime writes a time in seconds.
func (w *jsonWriter) WriteTime(s *smithy.Schema, v time.Time) {
	w.WriteFloat64(s, smithytime.FormatEpochSeconds(v))
}

// writeText writes a string. Most need no escapes.
func (w *jsonWriter) writeText(v string) {
	if !isPlain(v) {
		var escaped bytes.Buffer
		e := json.NewEncoder(&escaped)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // a string can always be encoded
		w.body = append(w.body, bytes.TrimRight(escaped.Bytes(), "\n")...)
		return
	}
	w.body = append(w.body, '"')
	w.body = append(w.body, v...)
	w.body = append(w.body, '"')
}

// isPlain reports whether JSON has the text as it is. It looks at eight bytes at a time: answers are
// mostly ARNs.
func isPlain(v string) bool {
	for ; len(v) >= 8; v = v[8:] {
		if !isPlainWord(uint64(v[0]) | uint64(v[1])<<8 | uint64(v[2])<<16 | uint64(v[3])<<24 |
			uint64(v[4])<<32 | uint64(v[5])<<40 | uint64(v[6])<<48 | uint64(v[7])<<56) {
			return false
		}
	}
	for i := range len(v) {
		if c := v[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isPlainWord reports the same of eight bytes. x - n*each has the highest bit in the first byte that
// is below n, unless that bit was set in x. A byte that equals n is 0 in x ^ n*each, and so below 1.
func isPlainWord(x uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	below := (x - ' '*each) | ((x ^ '"'*each) - each) | ((x ^ '\\'*each) - each)
	return (x|below)&high == 0
}

// A refusal is why an output cannot be written. Its methods refuse the kinds of values that no
// answer of the ECS API has.
type refusal struct{ err error }

func (r *refusal) refuse() {
	r.err = errors.New("a value has a type that no answer of the ECS API has")
}

// WriteInt8 implements [smithy.ShapeSerializer], as do the others.
func (r *refusal) WriteInt8(*smithy.Schema, int8)               { r.refuse() }
func (r *refusal) WriteInt16(*smithy.Schema, int16)             { r.refuse() }
func (r *refusal) WriteFloat32(*smithy.Schema, float32)         { r.refuse() }
func (r *refusal) WriteBigInt(*smithy.Schema, *big.Int)         { r.refuse() }
func (r *refusal) WriteBigFloat(*smithy.Schema, *big.Float)     { r.refuse() }
func (r *refusal) WriteBlob(*smithy.Schema, []byte)             { r.refuse() }
func (r *refusal) WriteNil(*smithy.Schema)                      { r.refuse() }
func (r *refusal) WriteDocument(*smithy.Schema, document.Value) { r.refuse() }
