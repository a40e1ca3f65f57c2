package embedded

import (
	"bytes"
	"encoding/json"
	"slices"

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

// fieldValue encodes the row at the first field that a pattern asks for besides the key.
func (i *image) fieldValue(name string) any {
	switch name {
	case "pk":
		return map[string]any{"S": i.key.Cluster}
	case "sk":
		return map[string]any{"S": i.key.Sort}
	}
	if i.row == nil {
		return absent{}
	}
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
