package awsjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"berth/shared/cluster"
)

// checkSpelling refuses a request that ECS could read differently from Berth: one that names a
// member twice, or in another case than the protocol. encoding/json takes the last of
// {"cluster": "theirs", "Cluster": "ours"}, and ECS, which gets the same body, the first. The audit
// log would name the wrong one, too. Unknown members and the keys of maps may have any name.
func checkSpelling(body []byte, in any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return checkValue(d, reflect.TypeOf(in), "")
}

// checkValue reads one value, which is decoded into the type; nil for a value that is not decoded.
// Syntax is not checked here but where the body is decoded.
func checkValue(d *json.Decoder, t reflect.Type, path string) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := d.Token()
	if err != nil {
		return nil
	}
	switch token {
	case json.Delim('{'):
		return checkMembers(d, t, path)
	case json.Delim('['):
		item := elementOf(t, reflect.Slice)
		for d.More() {
			if err := checkValue(d, item, path); err != nil {
				return err
			}
		}
		_, _ = d.Token() // the end of the list
	}
	return nil
}

// checkMembers reads the rest of an object.
func checkMembers(d *json.Decoder, t reflect.Type, path string) error {
	var members map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		members = membersOf(t)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil
		}
		member, known := members[name]
		switch {
		case known && seen[name]:
			return cluster.Errorf(cluster.CodeSerialization, "%.200s is there twice.", path+name)
		case !known && members != nil:
			if right := spelledRight(members, name); right != "" {
				return cluster.Errorf(cluster.CodeSerialization, "%.200q is no member, expected %s.", path+name,
					path+right)
			}
		case members == nil:
			member = elementOf(t, reflect.Map)
		}
		seen[name] = true
		if err := checkValue(d, member, path+name+"."); err != nil {
			return err
		}
	}
	_, _ = d.Token() // the end of the object
	return nil
}

// elementOf returns the type of the items of a list or map; nil for any other type.
func elementOf(t reflect.Type, kind reflect.Kind) reflect.Type {
	if t == nil || t.Kind() != kind {
		return nil
	}
	return t.Elem()
}

// spelledRight returns the member that encoding/json would take for the name, which is in another
// case of letters; empty if there is none.
func spelledRight(members map[string]reflect.Type, name string) string {
	for right := range members {
		if strings.EqualFold(right, name) {
			return right
		}
	}
	return ""
}

// spellings has the members of each type that was decoded before, see [membersOf].
var spellings sync.Map

// membersOf returns the members of a struct by their names in the protocol: those of the tag json,
// else the field's name with a small first letter, as in the SDK's types.
func membersOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := spellings.Load(t); ok {
		return known.(map[string]reflect.Type) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	members := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported(), f.Anonymous && name == "", name == "-":
			continue
		case name == "":
			name = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		members[name] = f.Type
	}
	spellings.Store(t, members)
	return members
}
