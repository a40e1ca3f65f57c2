package awsjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire/transport"
)

// Operation answers one operation of the ECS API: the body of the request in, the output of the
// SDK's type (a pointer such as *ecs.ListTasksOutput) or an error out. Errors that are not
// [cluster.Error] become ServerException.
type Operation func(ctx context.Context, body []byte) (any, error)

// TypedOperation makes an [Operation] of a function on the SDK's own input and output, ecs.XInput
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

// DecodeInput reads a request's body into the SDK's input, whose fields have the names of the
// protocol but for the case of the first letter, which encoding/json does not mind. Unknown members
// are ignored, as AWS does; no body is an empty input.
func DecodeInput(body []byte, in any) error {
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
		return nil
	case errors.As(err, &wrong):
		return cluster.Errorf(cluster.CodeSerialization, "%.200s: %.100s is no value of this member.",
			protocolPath(wrong.Field), wrong.Value)
	}
	return cluster.Errorf(cluster.CodeSerialization, "The request is not valid JSON: %.200s.", err.Error())
}

// protocolPath is the path of a field as the protocol spells it: Overrides.CPU is overrides.cPU at
// worst.
func protocolPath(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToLower(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, ".")
}

// plain is an output of Berth's own shapes.
type plain struct{ value any }

// StrictOperation makes an [Operation] of a function on shapes of Berth's own.
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

func decodeStrict(body []byte, in any) error {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("more than one JSON value")
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return cluster.Errorf(cluster.CodeSerialization, "%.200s: %.100s is no value of this member.", wrong.Field,
			wrong.Value)
	}
	return cluster.Errorf(cluster.CodeSerialization, "The request cannot be read: %.200s.", err.Error())
}

// LoggedOperation is an operation that is logged with its caller once it has changed something.
func LoggedOperation(log *slog.Logger, name string, f Operation) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		out, err := f(ctx, body)
		if r, ok := out.(Raw); err == nil && (!ok || r.Status < 300) {
			transport.LogChange(ctx, log, name)
		}
		return out, err
	}
}
