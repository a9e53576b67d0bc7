/* SPDX-License-Identifier: GPL-2.0 */
/* The known chain in a library of assembly with frame pointers, without any call frame information. */
	.macro	function name
	.p2align 4
	.globl	\name
	.type	\name, @function
\name:
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	.endm

	.text
	function inner
	mov	$100000, %eax
1:	dec	%eax
	jnz	1b
	pop	%rbp
	ret
	.size	inner, . - inner

	function middle
	sub	$32, %rsp
	call	inner
	leave
	ret
	.size	middle, . - middle

	function outer
	push	%rbx
	sub	$24, %rsp
	mov	$20, %ebx
1:	call	middle
	dec	%ebx
	jnz	1b
	mov	-8(%rbp), %rbx
	leave
	ret
	.size	outer, . - outer
	.section .note.GNU-stack, "", @progbits
