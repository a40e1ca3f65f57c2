package awsapi

import (
	"errors"
	"fmt"

	"github.com/aws/smithy-go"

	"berth/shared/awsapi/outcome"
	"berth/shared/cluster"
)

// refusedIdentity are the codes by which AWS refuses who we are. They say nothing of what was
// asked, so nobody may take them for ECS's verdict on a task.
var refusedIdentity = map[string]bool{
	"ExpiredToken": true, "ExpiredTokenException": true, "InvalidClientTokenId": true, "RequestExpired": true,
	"UnrecognizedClientException": true, "InvalidSignatureException": true, "SignatureDoesNotMatch": true,
	"IncompleteSignature": true, "IncompleteSignatureException": true, "MissingAuthenticationToken": true,
	"MissingAuthenticationTokenException": true,
}

// apiError is an error of the SDK as the ECS API's own, *cluster.Error; throttling of any kind has
// one code. What is not an answer of the API stays as it is.
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

// actionError is [apiError] for a call that changes something: where it may have done so all the
// same, the error is cluster.ErrAmbiguous too.
func actionError(err error) error {
	if outcome.IsUnknown(err) {
		return fmt.Errorf("%w: %w", cluster.ErrAmbiguous, apiError(err))
	}
	return apiError(err)
}

// CallError is an error of the SDK as Berth's own, for Elastic Load Balancing, Cloud Map and
// CloudWatch: *cluster.Error with the service's code, but for throttling and denials, which have
// one code each; cluster.ErrAmbiguous too where the call may have taken effect all the same.
func CallError(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "AccessDenied" {
		return cluster.Errorf(cluster.CodeAccessDenied, "%s", api.ErrorMessage())
	}
	return actionError(err)
}
