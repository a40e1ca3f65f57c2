package awsapi

import (
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"berth/shared/awsapi/outcome"
	"berth/shared/cluster"
)

// refusedIdentity are the codes by which AWS refuses the caller's credentials. They say nothing
// about the request, so they must not be taken for ECS's answer about a task.
var refusedIdentity = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "InvalidClientTokenId": true, "RequestExpired": true,
	"UnrecognizedClientException": true, "InvalidSignatureException": true, "SignatureDoesNotMatch": true,
	"IncompleteSignature": true, "IncompleteSignatureException": true, "MissingAuthenticationToken": true,
	"MissingAuthenticationTokenException": true,
}

// apiError returns an error of the SDK as the *cluster.Error that the API answered with. Throttling
// of any kind has one code. An error that is no answer of the API, or one about credentials, stays
// as it is.
func apiError(err error) error {
	var api smithy.APIError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &api) || refusedIdentity[api.ErrorCode()]:
		return err
	case outcome.IsThrottled(err):
		return cluster.Errorf(cluster.CodeThrottling, "%s", api.ErrorMessage())
	}
	return cluster.Errorf(cluster.Code(api.ErrorCode()), "%s", api.ErrorMessage())
}

// actionError is [apiError] for a call that changes something. If the call may have taken effect
// all the same, the error is cluster.ErrAmbiguous, too.
func actionError(err error) error {
	if outcome.IsUnknown(err) {
		return fmt.Errorf("%w: %w", cluster.ErrAmbiguous, apiError(err))
	}
	return apiError(err)
}

// WrapCallError adds what failed to [CallError]; nil stays nil.
func WrapCallError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, CallError(err))...)
}

// CallError returns an error of the SDK as Berth's own, for the services besides ECS: a
// *cluster.Error with the service's code, except that throttling and denials have one code each. It
// is cluster.ErrAmbiguous, too, if the call may have taken effect all the same.
func CallError(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "AccessDenied" {
		return cluster.Errorf(cluster.CodeAccessDenied, "%s", api.ErrorMessage())
	}
	return actionError(err)
}
