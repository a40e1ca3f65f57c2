package cluster

import (
	"errors"
	"fmt"
)

// Code is an error code of the ECS API.
type Code string

// The codes that Berth answers with.
const (
	CodeInvalidParameter    Code = "InvalidParameterException"
	CodeClient              Code = "ClientException"
	CodeServer              Code = "ServerException"
	CodeAccessDenied        Code = "AccessDeniedException"
	CodeClusterNotFound     Code = "ClusterNotFoundException"
	CodeServiceNotFound     Code = "ServiceNotFoundException"
	CodeServiceNotActive    Code = "ServiceNotActiveException"
	CodeDeploymentNotFound  Code = "ServiceDeploymentNotFoundException"
	CodeTaskSetNotFound     Code = "TaskSetNotFoundException"
	CodeUnsupported         Code = "UnsupportedFeatureException"
	CodeConflict            Code = "ConflictException"
	CodeAttributeLimit      Code = "AttributeLimitExceededException"
	CodeTargetNotFound      Code = "TargetNotFoundException"
	CodeContainsInstances   Code = "ClusterContainsContainerInstancesException"
	CodeContainsServices    Code = "ClusterContainsServicesException"
	CodeContainsTasks       Code = "ClusterContainsTasksException"
	CodeResourceNotFound    Code = "ResourceNotFoundException"
	CodeUnknownOperation    Code = "UnknownOperationException"
	CodeSerialization       Code = "SerializationException"
	CodeThrottling          Code = "ThrottlingException"
	CodeRequestEntityTooBig Code = "RequestEntityTooLargeException"
	CodeResourceInUse       Code = "ResourceInUseException"
	CodeInvalidRequest      Code = "InvalidRequestException"
	CodeUpdateInProgress    Code = "UpdateInProgressException"
	CodeLimitExceeded       Code = "LimitExceededException"
	CodeBadRequest          Code = "BadRequestException"
	CodeNotFound            Code = "NotFoundException"
	// CodeMissingToken is how EKS answers a method and path that it does not have, regardless of
	// the request's signature: its API Gateway asks for a token there. It is also what AWS answers
	// to a request without a signature.
	CodeMissingToken Code = "MissingAuthenticationTokenException"
	// CodeInvalidSignature and CodeUnknownKey refuse requests that are signed in a wrong way, or
	// with a key that no caller has.
	CodeInvalidSignature Code = "InvalidSignatureException"
	CodeUnknownKey       Code = "UnrecognizedClientException"
)

// The codes of Elastic Load Balancing and Cloud Map that mean something to Berth.
const (
	CodeTargetGroupNotFound Code = "TargetGroupNotFound"
	CodeInvalidTarget       Code = "InvalidTarget"
	CodeBalancerNotFound    Code = "LoadBalancerNotFound" // a Classic Load Balancer
	CodeInvalidInstance     Code = "InvalidInstance"      // of a Classic Load Balancer
	CodeRegistryNotFound    Code = "ServiceNotFound"
	CodeEntryNotFound       Code = "InstanceNotFound"
	CodeDuplicateRequest    Code = "DuplicateRequest"
	CodeEntryInUse          Code = "ResourceInUse"
)

// Error is an error of an AWS API: one that Berth answers with, or one that it received.
type Error struct {
	Code    Code
	Message string
	// Resources names the tasks that a clientToken stands for already, in a ConflictException: by id,
	// and as answered by ARN.
	Resources []string
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf returns an [Error] with a formatted message.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrorCode returns the code of the [Error] in err, or ServerException if there is none.
func ErrorCode(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeServer
}

// ErrAmbiguous marks a call whose outcome is unknown: it may or may not have taken effect. The
// caller must read again before it acts again.
var ErrAmbiguous = errors.New("the outcome is unknown")

// An UnwritableError says that a file of Berth's cannot be written at the moment. Nothing was
// changed, unless it is [ErrAmbiguous] as well. Callers of the API learn of it.
type UnwritableError struct {
	Path  string
	Cause error
}

// Error names the file and the cause, and says which calls still work.
func (e *UnwritableError) Error() string {
	if errors.Is(e.Cause, ErrAmbiguous) {
		return fmt.Sprintf("%s cannot be written any more: %v", e.Path, e.Cause)
	}
	return fmt.Sprintf("%s cannot be written: %v. Nothing is changed until it can be; reads are answered.", e.Path,
		e.Cause)
}

// Unwrap returns the cause.
func (e *UnwritableError) Unwrap() error { return e.Cause }

// A Drop is the error for an input that no retry can help. It is acknowledged, counted and logged.
type Drop struct{ Reason string }

// Error returns the reason.
func (d *Drop) Error() string { return "dropped: " + d.Reason }

// IgnoreDrop returns nil for a [Drop] and any other error as it is.
func IgnoreDrop(err error) error {
	var drop *Drop
	if errors.As(err, &drop) {
		return nil
	}
	return err
}

// Wrap is fmt.Errorf with ": %w" for err, and returns nil if err is nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

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

// isTransient reports whether an error with the code may pass by itself.
func isTransient(c Code) bool {
	switch c {
	case CodeServer, CodeThrottling, "Throttling", "RequestLimitExceeded", "InternalError", "InternalFailure",
		"ServiceUnavailable",
		"Unavailable", "ScalingActivityInProgress", "ResourceContention":
		return true
	}
	return false
}
