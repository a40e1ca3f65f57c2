// Package answer completes ECS's answers with what AWS always sends: empty lists, defaults and
// counts. The simulated ECS and emulators of AWS leave some of it out, and clients stop at a
// missing list. So every answer that is passed on has the same members, from ECS as from Berth.
//
// Answers are edited as JSON, so members unknown to this SDK stay as they are. Editing is
// idempotent and never replaces what ECS sent, but for counts, see [Cluster], and what a [List] leaves
// out.
//
// Start at [Edit]. There is a file for each kind of thing.
package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// An Object is a JSON object: numbers are [json.Number], lists []any, objects map[string]any.
type Object map[string]any

// Edit decodes an answer, lets edit change it, and encodes it again.
func Edit(body []byte, edit func(Object) error) ([]byte, error) {
	var out Object
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %w", err)
	}
	if out == nil {
		return nil, fmt.Errorf("decoding an answer of ECS: %.200q is no object", body)
	}
	if err := edit(out); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// Objects returns the objects in a list; the changes to them are changes of o.
func (o Object) Objects(member string) (out []Object) {
	list, _ := o[member].([]any)
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}

// Object returns a member that is an object, nil if there is none.
func (o Object) Object(member string) Object {
	object, _ := o[member].(map[string]any)
	return object
}

// Text returns a member that is text, "" if there is none.
func (o Object) Text(member string) string {
	s, _ := o[member].(string)
	return s
}

// Strings returns the texts in a list.
func (o Object) Strings(member string) (out []string) {
	list, _ := o[member].([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// setDefault sets a member that is missing or null.
func (o Object) setDefault(member string, v any) {
	if o[member] == nil {
		o[member] = v
	}
}

// setEmptyLists sets the lists that are missing.
func (o Object) setEmptyLists(members ...string) {
	for _, m := range members {
		o.setDefault(m, []any{})
	}
}
