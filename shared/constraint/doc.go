// Package constraint decides whether an instance satisfies an expression: compiled once, evaluated
// often. It never asks anyone but the Subject it is given, and knows nothing of tasks to place.
//
// It has two languages. The cluster query language of ECS (ParseQuery; S3, "Cluster query language"
// in the Amazon ECS Developer Guide), whose words may be written in any case:
//
//	query      = and { ( "or" | "||" ) and } .
//	and        = not { ( "and" | "&&" ) not } .
//	not        = ( "not" | "!" ) not | "(" query ")" | comparison .
//	comparison = subject ( operator value | member list | match pattern | presence ) .
//	subject    = "agentConnected" | "agentVersion" | "attribute:" name | "ec2InstanceId" | "registeredAt"
//	           | "runningTasksCount" | "task:group" .
//	operator   = "==" | "equals" | "!=" | "not_equals" | ">" | "greater_than" | ">=" | "greater_than_equal"
//	           | "<" | "less_than" | "<=" | "less_than_equal" .
//	member     = "in" | "!in" | "not_in" .
//	match      = "=~" | "matches" | "!~" | "not_matches" .
//	presence   = "exists" | "!exists" | "not_exists" .
//	list       = "[" value { "," value } "]" .
//	value      = quoted | bare .         // bare: no blank and none of ( ) [ ] , ' " = < > ! ~ & |
//	pattern    = quoted | bare .         // bare: no blank, parentheses in pairs; a regular expression of Java
//	quoted     = "'" { any but "'" } "'" | '"' { any but '"' } '"' .
//	name       = letters, digits and - _ . / \ .
//
// And the node-property constraints of Service Fabric (ParseProperties; P7, P8), where blanks
// around a token are not part of it and quotes are:
//
//	constraint = [ or ] .
//	or         = and { "||" and } .
//	and        = comparison { "&&" comparison } .
//	comparison = unary { ( "==" | "!=" | ">=" | "<=" | "<" | ">" | "^P" | "!^P" | "^" | "!^" | "~" ) unary } .
//	unary      = "!" unary | "(" or ")" | token .
//	token      = all text up to the next operator or parenthesis .
//
// There the left token of a comparison names a property and the right one is a literal. Anything
// else than a comparison of two tokens, or a Boolean operator over comparisons, parses and is an
// error when evaluated.
package constraint
