package installation

import (
	"context"

	"berth/shared/wire/awsjson"
)

// forwarder passes calls on to the simulated ECS in this process.
type forwarder struct{ *awsjson.Mux }

func (f forwarder) Forward(ctx context.Context, op string, body []byte) (int, []byte, error) {
	status, answer := f.ServeOperation(ctx, op, body)
	return status, answer, nil
}

// Ask answers a call as the simulated ECS has it before it is encoded.
func (f forwarder) Ask(ctx context.Context, op string, body []byte) (any, error) {
	return f.AnswerOperation(ctx, op, body)
}
