package awsjson

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"berth/shared/choice"
	"berth/shared/cluster"
)

// An unknownMember says what becomes of a member that the SDK's type does not have.
type unknownMember int

const (
	refuseUnknown unknownMember = iota
	passUnknown
)

// checkSpelling refuses a request that ECS could read differently from Berth: one that names a
// member or a key of a map twice, or a member in another case than the protocol. encoding/json takes the last of
// {"cluster": "theirs", "Cluster": "ours"}, and ECS, which gets the same body, the first. The audit
// log would name the wrong one, too. The keys of maps may have any name, and unknown members are
// refused only where they would be dropped.
func checkSpelling(body []byte, in any, unknown unknownMember) error {
	s := speller{json.NewDecoder(bytes.NewReader(body)), unknown}
	s.UseNumber()
	return s.checkValue(reflect.TypeOf(in), "")
}

// A speller reads a body whose syntax was checked where it was decoded.
type speller struct {
	*json.Decoder
	unknown unknownMember
}

// checkValue reads one value, which is decoded into the type; nil for a value that is not decoded.
func (s speller) checkValue(t reflect.Type, path string) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := s.Token()
	if err != nil {
		return nil
	}
	switch token {
	case json.Delim('{'):
		return s.checkMembers(t, path)
	case json.Delim('['):
		item := elementOf(t, reflect.Slice)
		for s.More() {
			if err := s.checkValue(item, path); err != nil {
				return err
			}
		}
		_, _ = s.Token() // the end of the list
	}
	return nil
}

// checkMembers reads the rest of an object.
func (s speller) checkMembers(t reflect.Type, path string) error {
	var members map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		members = membersOf(t)
	}
	seen := map[string]bool{}
	for s.More() {
		token, err := s.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil
		}
		member, known := members[name]
		switch {
		case seen[name] && (known || t != nil && t.Kind() == reflect.Map):
			return cluster.Errorf(cluster.CodeSerialization, "%.200s is there twice.", path+name)
		case !known && members != nil:
			if right := spelledRight(members, name); right != "" {
				return cluster.Errorf(cluster.CodeSerialization, "%.200q is no member, expected %s.", path+name,
					path+right)
			}
			if err := s.skipUnknown(path, name, members); err != nil {
				return err
			}
			continue
		case members == nil:
			member = elementOf(t, reflect.Map)
		}
		seen[name] = true
		if err := s.checkValue(member, path+name+"."); err != nil {
			return err
		}
	}
	_, _ = s.Token() // the end of the object
	return nil
}

// skipUnknown reads the value of an unknown member, and refuses it unless it is null, which is how
// clients write a member that they do not set.
func (s speller) skipUnknown(path, name string, members map[string]reflect.Type) error {
	var value json.RawMessage
	if err := s.Decode(&value); err != nil || s.unknown == passUnknown || string(value) == "null" {
		return nil
	}
	return cluster.Errorf(cluster.CodeUnsupported, "%.200s is not supported: this version of Berth does not know it%s",
		path+name, endOfUnknown(name, members))
}

// maxListedMembers is how many members a refusal lists: more would hide what is wrong.
const maxListedMembers = 20

// endOfUnknown ends the sentence about an unknown member: with the nearest one, or if none is near,
// with all that the object may have.
func endOfUnknown(name string, members map[string]reflect.Type) string {
	known := slices.Sorted(maps.Keys(members))
	if len(known) == 0 || len(known) > maxListedMembers || choice.Nearest(name, known) != "" {
		return choice.End(name, known)
	}
	return "; " + choice.Expected(name, known)
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
