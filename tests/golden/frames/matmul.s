	.intel_syntax noprefix
	.text
kernel_0:
	push rbp
	mov rbp, rsp
	sub rsp, 744
	and rsp, -64
	mov rax, [rdi + 0]
	mov qword ptr [rbp - 48], rax
	mov rax, [rdi + 8]
	mov qword ptr [rbp - 56], rax
	mov rax, [rdi + 16]
	mov qword ptr [rbp - 64], rax
	lea rdi, [rbp - 112]
	mov rsi, 12
	call tasor_first_part@PLT
.Lkernel_0_1:
	mov rax, qword ptr [rbp - 112]
	cmp rax, qword ptr [rbp - 104]
	jge .Lkernel_0_3
	mov qword ptr [rbp - 72], rax
.Lkernel_0_2:
	mov rax, qword ptr [rbp - 72]
	mov rcx, 6
	cqo
	idiv rcx
	mov qword ptr [rbp - 80], rax
	mov rax, rdx
	mov qword ptr [rbp - 88], rax
	mov rax, qword ptr [rbp - 80]
	cmp rax, 1
	setl al
	movzx eax, al
	test rax, rax
	je .Lkernel_0_4
	mov rax, qword ptr [rbp - 88]
	cmp rax, 5
	setl al
	movzx eax, al
	test rax, rax
	je .Lkernel_0_6
	mov rax, 40
	mov [rsp + 0], rax
	mov rax, qword ptr [rbp - 80]
	imul rax, rax, 7200
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 120], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 1200
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 160
	mov qword ptr [rbp - 168], rax
	mov rax, qword ptr [rbp - 80]
	imul rax, rax, 24
	add rax, qword ptr [rbp - 168]
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 136], rax
	mov rdi, qword ptr [rbp - 120]
	mov rsi, qword ptr [rbp - 128]
	mov rdx, qword ptr [rbp - 136]
	mov rcx, 300
	mov r8, 24
	mov r9, 300
	call tasor_part_f3814164e3cb8897@PLT
	jmp .Lkernel_0_7
.Lkernel_0_6:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 24000]
	mov qword ptr [rbp - 120], rax
	mov rax, qword ptr [rbp - 80]
	imul rax, rax, 7200
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp - 80]
	imul rax, rax, 24
	add rax, 800
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 136], rax
	mov rdi, qword ptr [rbp - 120]
	mov rsi, qword ptr [rbp - 128]
	mov rdx, qword ptr [rbp - 136]
	mov rcx, 300
	mov r8, 24
	call tasor_part_63fdbcc3d98b9e9f@PLT
.Lkernel_0_7:
	jmp .Lkernel_0_5
.Lkernel_0_4:
	mov rax, qword ptr [rbp - 88]
	cmp rax, 5
	setl al
	movzx eax, al
	test rax, rax
	je .Lkernel_0_8
	mov rax, 40
	mov [rsp + 0], rax
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + 28800]
	mov qword ptr [rbp - 120], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 1200
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 160
	add rax, 24
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 136], rax
	mov rdi, qword ptr [rbp - 120]
	mov rsi, qword ptr [rbp - 128]
	mov rdx, qword ptr [rbp - 136]
	mov rcx, 300
	mov r8, 24
	mov r9, 300
	call tasor_part_a0cc241d9402bc1e@PLT
	jmp .Lkernel_0_9
.Lkernel_0_8:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 24000]
	mov qword ptr [rbp - 120], rax
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + 28800]
	mov qword ptr [rbp - 128], rax
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 3296]
	mov qword ptr [rbp - 136], rax
	mov rdi, qword ptr [rbp - 120]
	mov rsi, qword ptr [rbp - 128]
	mov rdx, qword ptr [rbp - 136]
	mov rcx, 300
	mov r8, 24
	call tasor_part_ef96c49d07f1aac4@PLT
.Lkernel_0_9:
.Lkernel_0_5:
	inc qword ptr [rbp - 72]
	mov rax, qword ptr [rbp - 72]
	cmp rax, qword ptr [rbp - 104]
	jl .Lkernel_0_2
	lea rdi, [rbp - 112]
	mov rsi, 12
	call tasor_next_part@PLT
	jmp .Lkernel_0_1
.Lkernel_0_3:
	leave
	ret

	.balign 8
.Lframes:
	.long kernel_0 - .Lframes
	.long 3
	.globl timed_by_team_to_end
	.type timed_by_team_to_end, @function
timed_by_team_to_end:
	mov r8, rcx
	mov rcx, rdx
	lea rax, [rip + .Lframes]
	movsxd rdx, dword ptr [rax + rdi * 8 + 4]
	movsxd rdi, dword ptr [rax + rdi * 8]
	add rdi, rax
	jmp tasor_calls_by_team_to_end@PLT
	.section .note.GNU-stack, "", @progbits
