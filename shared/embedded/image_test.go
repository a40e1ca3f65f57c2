package embedded

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A filter sees the same values in a row's fields as in its encoding, whatever fields rows have.
func TestImageEqualsTheEncodedRow(t *testing.T) {
	scalars := 0
	for _, prefix := range []string{
		state.PrefixMeta, state.PrefixInstance, state.PrefixService, state.PrefixTask, state.PrefixTarget,
		state.PrefixProvider, state.PrefixProviders, state.PrefixNodeGroup, state.PrefixConfiguration,
		state.PrefixThrottle, state.PrefixProtection, state.PrefixRequest, state.PrefixOutbox, state.PrefixDue,
	} {
		t.Run(strings.TrimSuffix(prefix, "#"), func(t *testing.T) {
			filled := state.EmptyRow(prefix)
			empty := reflect.New(reflect.TypeOf(filled).Elem()).Interface().(state.Row)
			fillAll(reflect.ValueOf(filled).Elem())
			fillScalars(reflect.ValueOf(filled).Elem())
			scalars += len(scalarFieldsOf(reflect.TypeOf(filled).Elem()))
			for _, row := range []state.Row{filled, empty} {
				for name := range encodedFields(t, filled) {
					i := image{row: row}
					got := i.fieldValue(name)
					if want := i.encodedFieldValue(name); !reflect.DeepEqual(plainValue(got), want) {
						t.Errorf("field %s is %v, and %v in its encoding", name, got, want)
					}
				}
			}
		})
	}
	if scalars < 100 {
		t.Errorf("only %d fields of all rows are read without encoding", scalars)
	}
	damaged := image{row: &cluster.Task{TaskSpec: cluster.TaskSpec{Owner: "a\xff\xffb"}}}
	if got := plainValue(damaged.fieldValue("o")); !reflect.DeepEqual(got, map[string]any{"S": "a\ufffd\ufffdb"}) {
		t.Errorf("a text that is not UTF-8 is %v", got)
	}
}

// plainValue returns what a pattern sees of a value.
func plainValue(v any) any {
	if a, ok := v.(dynamoScalar); ok {
		return map[string]any{a.kind: a.value}
	}
	return v
}

func encodedFields(t *testing.T, r state.Row) (out map[string]json.RawMessage) {
	data, err := state.EncodeRow(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "pk") // images have it of the key
	return out
}

// fillScalars gives every text, number and bool of a struct a value.
func fillScalars(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillScalars(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x<\"é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	}
}

// The fields of an event are those that decoding all of it finds.
func TestEventFieldsAreThoseOfItsJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, "{\t\"a\" : -1.5e3 ,\n\"b\" :[1, {\"c\":\"]}\"}, \"\\\"}\"] , \"c\":null}\r\n",
		`{"a":{"b":{"c":[]},"d":{}},"e":true,"f":false}`, `{"a\u0062":"c\\","é":"\u00e9","x":"\\\""}`,
		`{"a":1,"b":2,"a":{"z":3}}`, `{"":{"":""}}`, `{"a":"\ud83d\ude00 ` + "\xff" + `"}`, `[{"a":1},{"b":2}]`, `"a"`, `12`, `null`,
	} {
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got, err := parseJSONText([]byte(text))
		if err != nil || !reflect.DeepEqual(wholeValue(got, want), want) {
			t.Errorf("%s is %v (%v), want %v", text, wholeValue(got, want), err, want)
		}
	}
	for _, text := range []string{"", " ", "{", `{"a":}`, `{"a":1}}`, `{"a" 1}`, "nul"} {
		if _, err := parseJSONText([]byte(text)); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%q is taken for JSON: %v", text, err)
		}
	}
}

// wholeValue decodes all fields of want's objects.
func wholeValue(v, want any) any {
	o, ok := v.(*jsonObject)
	if !ok {
		return v
	}
	out := map[string]any{}
	fields, _ := want.(map[string]any)
	for name, field := range fields {
		out[name] = wholeValue(o.fieldValue(name), field)
	}
	for _, f := range o.fields {
		if _, ok := fields[f.name]; !ok {
			out[f.name] = "not in the JSON"
		}
	}
	if o.fieldValue("no such field") != (absent{}) {
		out["no such field"] = true
	}
	return out
}

func FuzzEventFields(f *testing.F) {
	f.Add(`{"a": {"b": [1, "]"]}, "c\u0064": "e\\", "a": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		if json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		got, err := parseJSONText([]byte(text))
		if err != nil || !reflect.DeepEqual(wholeValue(got, want), want) {
			t.Errorf("%q is %v (%v), want %v", text, wholeValue(got, want), err, want)
		}
		if o, ok := got.(*jsonObject); ok && slices.ContainsFunc(o.fields, func(f jsonField) bool { return len(f.text) == 0 }) {
			t.Errorf("%q has an empty field", text)
		}
	})
}
