package embedded

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"berth/shared/state"
)

// recordEvent is a stream record as Lambda shows it to a filter: eventName, and under dynamodb the
// Keys, NewImage and OldImage in DynamoDB's attribute values. The images are made only if a pattern
// asks for them: most records are rejected by their key alone. Example:
//
//	{
//	  "eventName": "MODIFY",
//	  "dynamodb": {
//	    "Keys": {"pk": {"S": "prod"}, "sk": {"S": "task#3f9a#x"}},
//	    "NewImage": {"pk": {"S": "prod"}, "la": {"S": "STOPPED"}, "ex": {"N": "137"}}
//	  }
//	}
type recordEvent struct {
	record    *state.Record
	old, next image
}

// PassesFilters reports whether the record matches one of the filters. Without filters every record
// passes.
func (s *StreamSource) PassesFilters(r *state.Record) bool {
	e := newRecordEvent(r)
	return len(s.Filters) == 0 || slices.ContainsFunc(s.Filters, func(p *Pattern) bool { return p.root.matchObject(e) })
}

func newRecordEvent(r *state.Record) *recordEvent {
	return &recordEvent{record: r, old: image{row: r.Old, key: r.Key}, next: image{row: r.New, key: r.Key}}
}

func (e *recordEvent) fieldValue(name string) any {
	switch name {
	case "eventName":
		return string(e.record.Op)
	case "eventSource":
		return "aws:dynamodb"
	case "dynamodb":
		return change{e}
	}
	return absent{}
}

// change is the part of the event under "dynamodb".
type change struct{ *recordEvent }

func (c change) fieldValue(name string) any {
	switch {
	case name == "Keys":
		return &image{key: c.record.Key}
	case name == "SequenceNumber":
		return c.record.Sequence
	case name == "NewImage" && c.next.row != nil:
		return &c.next
	case name == "OldImage" && c.old.row != nil:
		return &c.old
	}
	return absent{}
}

// image is a row in attribute values, or only its key if row is nil.
type image struct {
	row    state.Row
	key    state.Key
	fields map[string]json.RawMessage
}

// fieldValue reads the field from the row if it is a string, an integer or a bool, which most
// filters ask for. Otherwise it encodes the row, once.
func (i *image) fieldValue(name string) any {
	switch name {
	case "pk":
		return dynamoScalar{"S", i.key.Cluster}
	case "sk":
		return dynamoScalar{"S", i.key.Sort}
	}
	if i.row == nil {
		return absent{}
	}
	row := reflect.ValueOf(i.row).Elem()
	if f, ok := scalarFieldsOf(row.Type())[name]; ok {
		if v, ok := f.attributeOf(row); ok {
			return v
		}
	}
	return i.encodedFieldValue(name)
}

func (i *image) encodedFieldValue(name string) any {
	if i.fields == nil {
		i.fields = map[string]json.RawMessage{}
		if data, err := state.EncodeRow(i.row); err == nil {
			_ = json.Unmarshal(data, &i.fields) // what EncodeRow wrote is an object
		}
	}
	raw, ok := i.fields[name]
	if !ok {
		return absent{}
	}
	return parseAttributeValue(raw)
}

// dynamoScalar is a scalar in DynamoDB's form. Its kind is S, N or BOOL.
type dynamoScalar struct {
	kind  string
	value any
}

func (a dynamoScalar) fieldValue(name string) any {
	if name == a.kind {
		return a.value
	}
	return absent{}
}

// scalarField is a field of a row whose JSON follows from its value alone.
type scalarField struct {
	index    []int
	omitZero bool
}

// attributeOf returns the field of the row as an image has it, and false if only its JSON says that:
// encoding replaces what is not UTF-8.
func (f *scalarField) attributeOf(row reflect.Value) (any, bool) {
	v := row.FieldByIndex(f.index)
	if f.omitZero && v.IsZero() {
		return absent{}, true
	}
	switch v.Kind() {
	case reflect.String:
		return dynamoScalar{"S", v.String()}, utf8.ValidString(v.String())
	case reflect.Bool:
		return dynamoScalar{"BOOL", v.Bool()}, true
	default:
		return dynamoScalar{"N", strconv.FormatInt(v.Int(), 10)}, true
	}
}

var scalarFields sync.Map // reflect.Type to map[string]scalarField

// scalarFieldsOf finds the scalar fields of a type of rows once, by their names in JSON.
func scalarFieldsOf(t reflect.Type) map[string]scalarField {
	if known, ok := scalarFields.Load(t); ok {
		return known.(map[string]scalarField)
	}
	found := map[string]scalarField{}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return found
	}
	for name, fields := range fieldsByName(t, nil, map[string][]reflect.StructField{}) {
		_, options, _ := strings.Cut(fields[0].Tag.Get("json"), ",")
		plain := !slices.Contains(strings.Split(options, ","), "string")
		if len(fields) == 1 && plain && isScalar(fields[0].Type) {
			found[name] = scalarField{fields[0].Index, options != ""}
		}
	}
	scalarFields.Store(t, found)
	return found
}

// fieldsByName adds the fields of a struct and of those embedded in it, by their names in JSON.
// Where two have the same name, encoding/json has rules about which one counts.
func fieldsByName(t reflect.Type, index []int, out map[string][]reflect.StructField) map[string][]reflect.StructField {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		f.Index = append(slices.Clone(index), i)
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			fieldsByName(f.Type, f.Index, out)
			continue
		}
		if name == "" {
			name = f.Name
		}
		out[name] = append(out[name], f)
	}
	return out
}

// isScalar reports whether values of the type are encoded by their kind.
func isScalar(t reflect.Type) bool {
	for _, own := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
		reflect.TypeFor[interface{ IsZero() bool }](),
	} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return false
		}
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return true
	}
	return false
}

// parseAttributeValue is JSON in DynamoDB's form: {"S": "text"}, {"N": "5"} and so on.
func parseAttributeValue(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return absent{}
	}
	return toAttributeValue(v)
}

// toAttributeValue returns a decoded JSON value in DynamoDB's form. Example: [1, true] becomes
// {"L": [{"N": "1"}, {"BOOL": true}]}.
func toAttributeValue(v any) any {
	switch x := v.(type) {
	case string:
		return map[string]any{"S": x}
	case json.Number:
		return map[string]any{"N": x.String()}
	case bool:
		return map[string]any{"BOOL": x}
	case []any:
		list := make([]any, len(x))
		for i, item := range x {
			list[i] = toAttributeValue(item)
		}
		return map[string]any{"L": list}
	case map[string]any:
		m := make(map[string]any, len(x))
		for name, item := range x {
			m[name] = toAttributeValue(item)
		}
		return map[string]any{"M": m}
	}
	return map[string]any{"NULL": true}
}
