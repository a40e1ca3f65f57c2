// Package outcome decides whether an AWS call that failed may have taken effect all the same. It
// looks only at the SDK's error and never calls anything. Packages awsapi and dynamo use it.
//
// A failed call is one of three. It was refused or never sent: it has had no effect, and may be
// repeated. It was throttled: likewise, a little later. Or its outcome is unknown, because the
// answer was lost or the service failed inside: only a token or a condition makes a repetition
// safe. Start at [IsUnknown].
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

// IsUnknown reports whether the call may have taken effect: the request was, or may have been,
// sent, and the service did not say that it refused it. A caller that repeats it needs a token or a
// condition.
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
		return false // it failed before anything was sent: no endpoint, no credentials, bad parameters
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

// IsThrottled reports whether the service refused the call because there were too many. It has had
// no effect then.
func IsThrottled(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	_, throttle := retry.DefaultThrottleErrorCodes[api.ErrorCode()]
	return throttle
}
