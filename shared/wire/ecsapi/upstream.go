package ecsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
)

// upstream is ECS itself, or the simulated one, with the log for what goes wrong after the caller
// has an answer.
type upstream struct {
	Forwarder
	log *slog.Logger
}

// A Forwarder passes an operation on to ECS as it came. Status and body are ECS's own, errors of
// the API included; err means that there was no answer.
type Forwarder interface {
	Forward(ctx context.Context, op string, body []byte) (status int, answer []byte, err error)
}

// callECS calls an operation of ECS for Berth's own purposes, such as DescribeTaskDefinition, and
// decodes the answer into out, a pointer to the SDK's output. Errors of the API are
// [cluster.Error].
func (u upstream) callECS(ctx context.Context, op string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("asking ECS for %s: %w", op, err)
	}
	status, answer, err := u.Forward(ctx, op, body)
	if err != nil {
		return fmt.Errorf("asking ECS for %s: %w", op, err)
	}
	if status != http.StatusOK {
		return decodeError(status, answer)
	}
	o, ok := out.(smithy.Deserializable)
	if !ok {
		return fmt.Errorf("asking ECS for %s: %T is no output of the ECS API", op, out)
	}
	return awsjson.DecodeAnswer(answer, o)
}

// An Asker is a [Forwarder] to an ECS in the same process. Ask returns the SDK's output as it is
// before it is encoded, which may share memory with others and must only be read.
type Asker interface {
	Ask(ctx context.Context, op string, body []byte) (any, error)
}

// readECS is [upstream.callECS] for callers that only read the output: an ECS in the same process
// neither encodes it nor is it decoded.
func readECS[O any](ctx context.Context, u upstream, op string, in any) (*O, error) {
	if asker, ok := u.Forwarder.(Asker); ok {
		body, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("asking ECS for %s: %w", op, err)
		}
		answer, err := asker.Ask(ctx, op, body)
		if err != nil {
			return nil, fmt.Errorf("asking ECS for %s: %w", op, err)
		}
		if out, ok := answer.(*O); ok {
			return out, nil
		}
	}
	out := new(O)
	return out, u.callECS(ctx, op, in, out)
}

// decodeError returns an error answer of the protocol as [cluster.Error]. The type may have a
// prefix, as in com.amazonaws.ecs#ClientException.
func decodeError(status int, answer []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(answer, &e); err != nil || e.Type == "" {
		return fmt.Errorf("ECS answered with status %d: %.200q", status, answer)
	}
	return cluster.Errorf(cluster.Code(e.Type[strings.LastIndexByte(e.Type, '#')+1:]), "%s", e.Message)
}

// forwardOperation returns an operation that ECS carries out. check, which may be nil, refuses the
// request. Otherwise the body is passed on as it came, so that members unknown to this SDK reach
// ECS too.
//
// then, which may be nil, runs after ECS has carried the operation out, and returns the answer for
// the caller. If it fails, the caller gets ECS's answer all the same and the failure is logged:
// events and the hourly sweep catch up with what Berth missed.
func forwardOperation[I any](
	u upstream, op string, check func(context.Context, *I) error,
	then func(ctx context.Context, in *I, answer []byte) ([]byte, error),
) awsjson.Operation {
	return forwardRead(u, op, check, func(ctx context.Context, in *I, answer []byte) ([]byte, error) {
		if then == nil {
			return answer, nil
		}
		changed, err := then(ctx, in, answer)
		if err != nil {
			u.log.ErrorContext(ctx, "following up on the API", "operation", op, "error", err)
			return answer, nil
		}
		return changed, nil
	})
}

// forwardRead is [forwardOperation] for an operation whose answer the caller gets only as edit
// returns it: if that fails, the operation fails.
func forwardRead[I any](
	u upstream, op string, check func(context.Context, *I) error,
	edit func(ctx context.Context, in *I, answer []byte) ([]byte, error),
) awsjson.Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		in := new(I)
		if err := awsjson.DecodeForwarded(body, in); err != nil {
			return nil, err
		}
		if check != nil {
			if err := check(ctx, in); err != nil {
				return nil, err
			}
		}
		status, answer, err := u.Forward(ctx, op, body)
		if err != nil {
			return nil, fmt.Errorf("passing %s on to ECS: %w", op, err)
		}
		if status == http.StatusOK {
			if answer, err = edit(ctx, in, answer); err != nil {
				return nil, err
			}
		}
		return awsjson.Raw{Status: status, Body: answer}, nil
	}
}
