package cluster

import (
	"errors"
)

// PermanentError returns the API error in err if retrying cannot help, else nil.
func PermanentError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrAmbiguous) || isTransient(e.Code) {
		return nil
	}
	return e
}

// IsAccessDenied reports whether a code means that the caller lacks permission. AWS's APIs use
// several codes for it.
func IsAccessDenied(c Code) bool {
	switch c {
	case CodeAccessDenied, "AccessDenied", "UnauthorizedOperation":
		return true
	}
	return false
}

// isTransient reports whether a code is of an error that may pass by itself.
func isTransient(c Code) bool {
	switch c {
	case CodeServer, CodeThrottling, "Throttling", "RequestLimitExceeded", "InternalError", "InternalFailure",
		"ServiceUnavailable",
		"Unavailable", "ScalingActivityInProgress", "ResourceContention":
		return true
	}
	return false
}
