package cluster

import (
	"errors"
)

// PermanentError is the error of another API that refuses something for good; nil where it may be tried again.
func PermanentError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrAmbiguous) || isTransient(e.Code) {
		return nil
	}
	return e
}

// IsAccessDenied reports whether a code says that the caller lacks rights (common errors of AWS's APIs).
func IsAccessDenied(c Code) bool {
	switch c {
	case CodeAccessDenied, "AccessDenied", "UnauthorizedOperation":
		return true
	}
	return false
}

// isTransient reports whether a code is of an error that passes.
func isTransient(c Code) bool {
	switch c {
	case CodeServer, CodeThrottling, "Throttling", "RequestLimitExceeded", "InternalError", "InternalFailure", "ServiceUnavailable",
		"Unavailable", "ScalingActivityInProgress", "ResourceContention":
		return true
	}
	return false
}
