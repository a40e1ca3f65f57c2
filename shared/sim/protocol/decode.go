package protocol

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// DecodeTree reads a tree into the struct that into points to. A field takes the member of its
// name; a pointer tells an absent member from a zero one. The fields of an embedded struct are
// fields of the struct.
//
//	Name  string    `protocol:"required"` // must be there, and not empty
//	Size  int       `default:"50"`
//	Min   *int      // nil where absent
//	Tags  []tag     // a list of structures
//	Start time.Time // in seconds since 1970, as CBOR and JSON have it
//	Data  Tree      // as it is
//
// A text that must be a number or a truth value and is neither is a ValidationError: in a form
// everything is text. A value of any other kind than its field's leaves the field zero.
func DecodeTree(tree Tree, into any) error {
	return decodeStruct(tree, reflect.ValueOf(into).Elem())
}

func decodeStruct(tree Tree, into reflect.Value) error {
	for n := range into.NumField() {
		field := into.Type().Field(n)
		if field.Anonymous {
			if err := decodeStruct(tree, into.Field(n)); err != nil {
				return err
			}
			continue
		}
		v := tree[field.Name]
		if field.Tag.Get("protocol") == "required" && (v == nil || v == "") {
			return cluster.Errorf("ValidationError",
				"1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null",
				strings.ToLower(field.Name[:1])+field.Name[1:])
		}
		if v == nil && field.Tag.Get("default") != "" {
			v = field.Tag.Get("default")
		}
		if v == nil {
			continue
		}
		if err := decodeValue(field.Name, v, into.Field(n)); err != nil {
			return err
		}
	}
	return nil
}

var (
	treeType = reflect.TypeFor[Tree]()
	timeType = reflect.TypeFor[time.Time]()
)

func decodeValue(name string, v any, into reflect.Value) error {
	switch into.Type() {
	case treeType:
		if t, ok := v.(Tree); ok {
			into.Set(reflect.ValueOf(t))
		}
		return nil
	case timeType:
		if seconds, ok := v.(float64); ok {
			into.Set(reflect.ValueOf(time.UnixMilli(int64(seconds * 1000)).UTC()))
		}
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decodeValue(name, v, into.Elem())
	case reflect.String:
		if s, ok := v.(string); ok {
			into.SetString(s)
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		return decodeNumber(name, v, into)
	case reflect.Bool:
		b, ok := v.(bool)
		if s, isString := v.(string); isString {
			var err error
			if b, err = strconv.ParseBool(s); err != nil {
				return cluster.Errorf("ValidationError", "%.32q is neither true nor false for %s", s, name)
			}
			ok = true
		}
		if ok {
			into.SetBool(b)
		}
	case reflect.Struct:
		if t, ok := v.(Tree); ok {
			return decodeStruct(t, into)
		}
	case reflect.Slice:
		list, _ := v.([]any)
		for _, item := range list {
			e := reflect.New(into.Type().Elem()).Elem()
			if err := decodeValue(name, item, e); err != nil {
				return err
			}
			into.Set(reflect.Append(into, e))
		}
	}
	return nil
}

// decodeNumber reads a number, from text (forms) or as it is (CBOR, JSON). Integers of these APIs
// have 32 bits: text outside of them is an error; a number outside of them, or one with a fraction,
// leaves the field zero.
func decodeNumber(name string, v any, into reflect.Value) error {
	f, ok := v.(float64)
	if s, isString := v.(string); isString {
		var err error
		if into.Kind() == reflect.Float64 {
			f, err = strconv.ParseFloat(s, 64)
		} else {
			var n int64
			n, err = strconv.ParseInt(s, 10, 32)
			f = float64(n)
		}
		if err != nil {
			return cluster.Errorf("ValidationError", "%.32q is no number for %s", s, name)
		}
		ok = true
	}
	switch {
	case !ok:
	case into.Kind() == reflect.Float64:
		into.SetFloat(f)
	case math.Abs(f) <= math.MaxInt32+1 && f == math.Trunc(f):
		into.SetInt(int64(f))
	}
	return nil
}
