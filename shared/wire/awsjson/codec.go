package awsjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"berth/shared/cluster"
)

// An Operation answers one operation of the ECS API. It takes the body of the request and returns
// the SDK's output (a pointer such as *ecs.ListTasksOutput), a [Raw], or an error. An error that is
// not a [cluster.Error] becomes a ServerException.
type Operation func(ctx context.Context, body []byte) (any, error)

// TypedOperation returns an [Operation] that runs f on the SDK's own input and output, ecs.XInput
// and ecs.XOutput.
func TypedOperation[I, O any](f func(context.Context, *I) (*O, error)) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		in := new(I)
		if err := DecodeInput(body, in); err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// DecodeInput decodes a request's body into the SDK's input. Its fields have the protocol's names
// but for the case of the first letter, which encoding/json ignores; [checkSpelling] refuses any
// other spelling. ECS ignores members that no version of it has; here they are refused, because the
// caller may mean one that ECS has and this SDK does not know yet. No body is an empty input.
func DecodeInput(body []byte, in any) error { return decodeInput(body, in, refuseUnknown) }

// DecodeForwarded is [DecodeInput] for a body that is passed on to ECS as it came: members that
// this SDK does not know reach ECS, and are none of Berth's business.
func DecodeForwarded(body []byte, in any) error { return decodeInput(body, in, passUnknown) }

func decodeInput(body []byte, in any, unknown unknownMember) error {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 {
		return nil
	}
	if body[0] != '{' {
		return cluster.Errorf(cluster.CodeSerialization, "The request is not a JSON object.")
	}
	err := json.Unmarshal(body, in)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return checkSpelling(body, in, unknown)
	case errors.As(err, &wrong):
		return wrongType(body, wrong)
	}
	return cluster.Errorf(cluster.CodeSerialization, "The request is not valid JSON: %.200s.", err.Error())
}

// wrongType returns the SerializationException for a value of another type than its member. ECS
// names both types; the member comes after its words.
func wrongType(body []byte, wrong *json.UnmarshalTypeError) error {
	path, got, want := protocolPath(wrong.Field), "", ""
	if wrong.Type != nil { // a type with a decoder of its own may leave it out
		got, want = tokenOf(body[:wrong.Offset], wrong.Value), scalarName(wrong.Type)
	}
	if got == "" || want == "" {
		return cluster.Errorf(cluster.CodeSerialization, "%.200s: %.100s is no value of this member.", path,
			wrong.Value)
	}
	return cluster.Errorf(cluster.CodeSerialization, "%s cannot be converted to %s: %.200s", got, want, path)
}

// tokenOf returns ECS's name of a scalar value, which ends what was read; empty for any other
// value. A number that does not fit its member has its digits in kind, and is one of the others.
func tokenOf(read []byte, kind string) string {
	switch kind {
	case "string":
		return "STRING_VALUE"
	case "number":
		return "NUMBER_VALUE"
	case "bool":
		if bytes.HasSuffix(read, []byte("true")) {
			return "TRUE_VALUE"
		}
		return "FALSE_VALUE"
	}
	return ""
}

// scalarName returns ECS's name of a scalar type, which is Java's; empty for lists and structures,
// and for fractions, which are timestamps, too.
func scalarName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "String"
	case reflect.Bool:
		return "Boolean"
	case reflect.Int32, reflect.Int:
		return "Integer"
	case reflect.Int64:
		return "Long"
	}
	return ""
}

// protocolPath returns a field's path as the protocol spells it, overrides.cpu for Overrides.Cpu.
// Only the first letter of each part is lowered, so an abbreviation may come out as cPU.
func protocolPath(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToLower(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, ".")
}

// A plain is an output of a type of Berth's own.
type plain struct{ value any }

// StrictOperation returns an [Operation] that runs f on types of Berth's own. An unknown member of
// the request is a SerializationException.
func StrictOperation[I, O any](f func(context.Context, *I) (*O, error)) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		in := new(I)
		if err := decodeStrict(body, in); err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return plain{out}, nil
	}
}

// decodeStrict decodes exactly one JSON object without unknown members, spelt as [checkSpelling]
// wants it. No body is an empty input.
func decodeStrict(body []byte, in any) error {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil
	}
	if body[0] != '{' {
		return cluster.Errorf(cluster.CodeSerialization, "The request cannot be read: expected a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("more than one JSON value")
	}
	var wrong *json.UnmarshalTypeError
	var unknown *cluster.Error
	switch {
	case err == nil:
		return checkSpelling(body, in, refuseUnknown)
	case strings.HasPrefix(err.Error(), "json: unknown field") &&
		errors.As(checkSpelling(body, in, refuseUnknown), &unknown):
		return cluster.Errorf(cluster.CodeSerialization, "%s", unknown.Message) // it has the nearest member
	case errors.As(err, &wrong):
		return cluster.Errorf(cluster.CodeSerialization, "%.200s: %.100s is no value of this member.", wrong.Field,
			wrong.Value)
	}
	return cluster.Errorf(cluster.CodeSerialization, "The request cannot be read: %.200s.", err.Error())
}
