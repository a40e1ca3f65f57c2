package ecs

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
)

// checkedOperation makes an operation that refuses values that ECS does not know, wherever they are
// in the input.
func checkedOperation[I, O any](f func(context.Context, *I) (*O, error)) awsjson.Operation {
	return awsjson.TypedOperation(func(ctx context.Context, in *I) (*O, error) {
		if err := checkValues(in, cluster.CodeInvalidParameter); err != nil {
			return nil, err
		}
		return f(ctx, in)
	})
}

// worded are the types of text whose unknown values are refused in ECS's own words, where they are
// read.
var worded = []reflect.Type{
	reflect.TypeFor[types.ClusterSettingName](), reflect.TypeFor[types.TaskDefinitionPlacementConstraintType](),
}

// checkValues refuses values that an SDK's type of text with a few known values does not have. An
// empty value is a member that is not given. refusal is the code of the error.
func checkValues(in any, refusal cluster.Code) error {
	return checkValue(reflect.ValueOf(in), "", refusal)
}

func checkValue(v reflect.Value, path string, refusal cluster.Code) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkValue(v.Elem(), path, refusal)
		}
	case reflect.Slice:
		for n := range v.Len() {
			if err := checkValue(v.Index(n), path, refusal); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for n := range v.NumField() {
			field := v.Type().Field(n)
			if !field.IsExported() {
				continue
			}
			member := strings.ToLower(field.Name[:1]) + field.Name[1:]
			if err := checkValue(v.Field(n), strings.TrimPrefix(path+"."+member, "."), refusal); err != nil {
				return err
			}
		}
	case reflect.String:
		return checkText(v, path, refusal)
	}
	return nil
}

// checkText refuses a text whose type lists its values, but not this one.
func checkText(v reflect.Value, path string, refusal cluster.Code) error {
	list := v.MethodByName("Values")
	if !list.IsValid() || v.String() == "" || slices.Contains(worded, v.Type()) {
		return nil
	}
	known := list.Call(nil)[0]
	var all []string
	for n := range known.Len() {
		all = append(all, known.Index(n).String())
	}
	if slices.Contains(all, v.String()) {
		return nil
	}
	return cluster.Errorf(refusal, "%s is %.60q, %s", path, v.String(), choice.Expected(v.String(), all))
}
