// Package outcome tells, of an AWS call that failed, whether it can have taken effect all the same.
// It looks only at the error; it never calls anything.
package outcome

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// IsUnknown reports that the call may or may not have taken effect: the request was, or may have
// been, sent and the service did not say that it refused it. Whoever repeats such a call must do so
// under a token or a condition.
func IsUnknown(err error) bool {
	if err == nil || IsUnsent(err) {
		return false
	}
	var canceled *smithy.CanceledError
	if errors.As(err, &canceled) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var send *smithyhttp.RequestSendError
	var read *smithy.DeserializationError
	if errors.As(err, &send) || errors.As(err, &read) {
		return true
	}
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) {
		return false // failed before anything was sent: no endpoint, no credentials, bad parameters
	}
	return answer.HTTPStatusCode() >= http.StatusInternalServerError && !IsThrottled(err)
}

// IsUnsent reports whether no connection was made, so that the service has seen nothing of the call
// and the same call may be made again.
func IsUnsent(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns)
}

// IsThrottled reports that the service refused the call because there were too many: it has had no
// effect.
func IsThrottled(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	_, throttle := retry.DefaultThrottleErrorCodes[api.ErrorCode()]
	return throttle
}
