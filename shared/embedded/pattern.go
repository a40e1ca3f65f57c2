package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pattern is a compiled event pattern of EventBridge: which events a rule or a filter of an event
// source lets pass. It knows exact values, prefix, suffix, anything-but (of values, prefixes and
// suffixes), exists, numeric and $or. Other operators are refused when the pattern is compiled, so
// that none is silently ignored. Example:
//
//	{"detail": {"lastStatus": ["STOPPED"], "group": [{"prefix": "service:"}]}}
//
// matches {"detail": {"lastStatus": "STOPPED", "group": "service:web"}}: all fields must match,
// each by one of its alternatives.
type Pattern struct{ root *objectPattern }

// objectPattern matches an object by its fields, all of which must match.
type objectPattern struct {
	fields []fieldPattern
	or     [][]*objectPattern // of each $or, one must match
}

// fieldPattern matches one field: an object to match or, if that is nil, tests of which one must
// hold.
type fieldPattern struct {
	name   string
	object *objectPattern
	tests  []test
}

// test judges one scalar value (string, float64, bool or nil), or absent.
type test func(v any) bool

// absent is the value of a field that is not there, which {"exists": false} matches.
type absent struct{}

// lazy is an object whose fields are computed when a pattern asks for them.
type lazy interface{ fieldValue(name string) any } // absent{} where there is none

// ParsePattern compiles a pattern written as JSON text. Errors name the place within the pattern,
// such as pattern.detail.group[0].prefix.
func ParsePattern(text string) (*Pattern, error) {
	var doc any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	return compilePattern(doc)
}

// compilePattern compiles a pattern that has been decoded already.
func compilePattern(doc any) (*Pattern, error) {
	root, err := compileObject(doc, "pattern")
	if err != nil {
		return nil, err
	}
	return &Pattern{root}, nil
}

// compileObject compiles the fields of an object. An empty object is refused, because it would
// match everything.
func compileObject(doc any, path string) (*objectPattern, error) {
	m, ok := doc.(map[string]any)
	if !ok || len(m) == 0 {
		return nil, fmt.Errorf("%s: must be an object with at least one field", path)
	}
	o := &objectPattern{}
	for name, sub := range m {
		if name == "$or" {
			branches, err := compileAlternatives(sub, path+".$or")
			if err != nil {
				return nil, err
			}
			o.or = append(o.or, branches)
			continue
		}
		f, err := compileField(name, sub, path+"."+name)
		if err != nil {
			return nil, err
		}
		o.fields = append(o.fields, f)
	}
	slices.SortFunc(o.fields, compareFieldCost)
	return o, nil
}

// compareFieldCost puts plain fields before objects, and the Keys of a stream record before its
// images (K sorts before N and O), because most records are rejected by the first field.
func compareFieldCost(a, b fieldPattern) int {
	if (a.object == nil) != (b.object == nil) {
		if a.object == nil {
			return -1
		}
		return 1
	}
	return strings.Compare(a.name, b.name)
}

// compileAlternatives compiles a $or: objects of which one must match, beside the fields of the
// object that the $or is in.
func compileAlternatives(doc any, path string) ([]*objectPattern, error) {
	list, ok := doc.([]any)
	if !ok || len(list) < 2 {
		return nil, fmt.Errorf("%s: must be a list of at least two objects", path)
	}
	var out []*objectPattern
	for i, sub := range list {
		o, err := compileObject(sub, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// compileField compiles an object within an object, or a list of alternatives. Example: ["RUNNING",
// {"prefix": "STO"}].
func compileField(name string, doc any, path string) (fieldPattern, error) {
	f := fieldPattern{name: name}
	list, ok := doc.([]any)
	if !ok {
		var err error
		f.object, err = compileObject(doc, path)
		return f, err
	}
	if len(list) == 0 {
		return f, fmt.Errorf("%s: must have at least one value", path)
	}
	for i, sub := range list {
		t, err := compileTest(sub, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return f, err
		}
		f.tests = append(f.tests, t)
	}
	return f, nil
}

// MatchesEvent reports whether the pattern matches the event, which is JSON text. Text that is not
// JSON never matches.
func (p *Pattern) MatchesEvent(event []byte) bool {
	doc, err := parseJSONText(event)
	return err == nil && p.root.matchObject(doc)
}

// matchObject matches an array of objects if all fields match within one element, as EventBridge
// does.
func (o *objectPattern) matchObject(v any) bool {
	if list, ok := v.([]any); ok && len(list) > 0 {
		return slices.ContainsFunc(list, o.matchObject)
	}
	for _, f := range o.fields {
		if !f.matchField(fieldValueOf(v, f.name)) {
			return false
		}
	}
	for _, branches := range o.or {
		if !slices.ContainsFunc(branches, func(b *objectPattern) bool { return b.matchObject(v) }) {
			return false
		}
	}
	return true
}

// fieldValueOf returns the value of a field, absent{} if v has no such field or is no object.
func fieldValueOf(v any, name string) any {
	switch o := v.(type) {
	case map[string]any:
		if f, ok := o[name]; ok {
			return f
		}
	case lazy:
		return o.fieldValue(name)
	}
	return absent{}
}

func (f *fieldPattern) matchField(v any) bool {
	if f.object != nil {
		return f.object.matchObject(v)
	}
	return f.matchAnyTest(v)
}

// matchAnyTest tests a value, or any element of a list. An empty list is like an absent field.
func (f *fieldPattern) matchAnyTest(v any) bool {
	switch x := v.(type) {
	case []any:
		if len(x) > 0 {
			return slices.ContainsFunc(x, f.matchAnyTest)
		}
		v = absent{}
	case map[string]any, lazy:
		v = absent{} // an object is no value
	}
	for _, t := range f.tests {
		if t(v) {
			return true
		}
	}
	return false
}

// jsonObject is the text of a JSON object, of which only those fields are decoded that patterns ask
// for: an event has dozens.
type jsonObject struct {
	text   []byte
	fields []jsonField // nil until the first field is asked for
}

// jsonField is a field of an object: its text until it is decoded.
type jsonField struct {
	name    string
	text    []byte
	value   any
	decoded bool
}

// parseJSONText returns the value of a JSON text. Objects within it are decoded when they are asked
// for.
func parseJSONText(text []byte) (any, error) {
	if !json.Valid(text) {
		var doc any
		return nil, json.Unmarshal(text, &doc) // says why
	}
	return lazyValue(bytes.TrimSpace(text))
}

// lazyValue returns the value of a valid JSON text without space around it.
func lazyValue(text []byte) (v any, err error) {
	if text[0] == '{' {
		return &jsonObject{text: text}, nil
	}
	err = json.Unmarshal(text, &v)
	return v, err
}

// fieldValue returns the value of a field. Of several fields with that name, the last counts.
func (o *jsonObject) fieldValue(name string) any {
	if o.fields == nil {
		o.fields = splitObject(o.text)
	}
	for i := len(o.fields) - 1; i >= 0; i-- {
		f := &o.fields[i]
		if f.name != name {
			continue
		}
		if !f.decoded {
			v, err := lazyValue(f.text)
			if f.decoded = true; err != nil { // a number that is too large
				v = absent{}
			}
			f.value = v
		}
		return f.value
	}
	return absent{}
}

// splitObject returns the fields of a valid JSON object.
func splitObject(text []byte) []jsonField {
	fields := make([]jsonField, 0, 16)
	for rest := bytes.TrimLeft(text[1:], jsonSpace); rest[0] != '}'; rest = bytes.TrimLeft(rest, jsonSpace+",") {
		end := lengthOfValue(rest)
		f := jsonField{name: string(rest[1 : end-1])}
		if bytes.IndexByte(rest[:end], '\\') >= 0 || !utf8.Valid(rest[:end]) {
			_ = json.Unmarshal(rest[:end], &f.name) // it is a string
		}
		rest = bytes.TrimLeft(rest[end:], jsonSpace+":")
		end = lengthOfValue(rest)
		f.text, rest = rest[:end], rest[end:]
		fields = append(fields, f)
	}
	return fields
}

const jsonSpace = " \t\r\n"

// lengthOfValue returns the length of the value that a valid JSON text begins with.
func lengthOfValue(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth <= 0 {
				return i + 1 + depth // a number ends before the bracket of what it is in
			}
		case depth == 0 && (c == ',' || strings.IndexByte(jsonSpace, c) >= 0):
			return i
		}
	}
	return len(text)
}
