tasor_timed_kernel:
	push rbp
	mov rbp, rsp
	sub rsp, 1112
	and rsp, -64
	mov qword ptr [rbp - 8], rbx
	mov qword ptr [rbp - 16], r12
	mov rax, [rdi + 0]
	mov qword ptr [rbp - 48], rax
	mov rax, [rdi + 8]
	mov qword ptr [rbp - 56], rax
	mov rax, [rdi + 16]
	mov qword ptr [rbp - 64], rax
	mov rax, [rdi + 24]
	mov qword ptr [rbp - 72], rax
	mov rax, [rdi + 32]
	mov qword ptr [rbp - 80], rax
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_1:
	mov rax, 3
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_2
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 8
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 96], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 64
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + rax * 4 + 0]
	mov qword ptr [rbp - 112], rax
	mov rdi, qword ptr [rbp - 96]
	mov rsi, 30
	mov rdx, qword ptr [rbp - 112]
	mov rcx, 8
	call tasor_transpose_whole_8x8_f32@PLT
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_1
.Ltasor_timed_kernel_2:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 96]
	mov qword ptr [rbp - 88], rax
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 768]
	mov qword ptr [rbp - 112], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 30
	mov rdx, 8
	mov rcx, qword ptr [rbp - 112]
	mov r8, 8
	mov r9, 6
	call tasor_transpose_8x8_f32@PLT
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_3:
	mov rax, 6
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_4
	mov qword ptr [rbp - 96], 0
.Ltasor_timed_kernel_5:
	mov rax, 3
	cmp qword ptr [rbp - 96], rax
	jge .Ltasor_timed_kernel_6
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 3
	add rax, qword ptr [rbp - 96]
	and rax, 7
	imul rax, rax, 30
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 3
	add rax, qword ptr [rbp - 96]
	shr rax, 3
	imul rax, rax, 16
	add rax, qword ptr [rbp - 104]
	add rax, 253
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	prefetcht0 [rax]
	inc qword ptr [rbp - 96]
	jmp .Ltasor_timed_kernel_5
.Ltasor_timed_kernel_6:
	lea rax, [rsp + 512]
	mov qword ptr [rbp - 96], rax
	mov rax, qword ptr [rbp - 64]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 72]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 56]
	imul rcx, qword ptr [rbp - 88], 720
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	vxorps ymm4, ymm4, ymm4
	vxorps ymm5, ymm5, ymm5
	mov rdi, qword ptr [rbp - 120]
	mov r8, qword ptr [rbp - 104]
	mov r9, qword ptr [rbp - 112]
	mov r10, qword ptr [rbp - 80]
	mov rsi, 6
.Ltasor_timed_kernel_7:
	prefetcht0 [r8 + 0]
	prefetcht0 [r8 + 20]
	prefetcht0 [r8 + 160]
	prefetcht0 [r8 + 180]
	prefetcht0 [r9 + 0]
	prefetcht0 [r9 + 20]
	prefetcht0 [r9 + 160]
	prefetcht0 [r9 + 180]
	mov rbx, rdi
	mov r12, r10
	mov r11, 5
	.p2align 4
.Ltasor_timed_kernel_9:
	vmovups ymm6, [r12 + 0]
	vbroadcastss ymm7, dword ptr [rbx + 0]
	vfmadd231ps ymm0, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rbx + 4]
	vfmadd231ps ymm1, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rbx + 8]
	vfmadd231ps ymm2, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rbx + 12]
	vfmadd231ps ymm3, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rbx + 16]
	vfmadd231ps ymm4, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [rbx + 20]
	vfmadd231ps ymm5, ymm7, ymm6
	add r12, 32
	add rbx, 24
	dec r11
	jne .Ltasor_timed_kernel_9
.Ltasor_timed_kernel_10:
	add r8, 320
	add r9, 320
	add r10, 160
	add rdi, 120
	dec rsi
	jne .Ltasor_timed_kernel_7
.Ltasor_timed_kernel_8:
	mov rsi, qword ptr [rbp - 96]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	vmovups [rsi + 128], ymm4
	vmovups [rsi + 160], ymm5
	vbroadcastss ymm15, dword ptr [rip + .Ltasor_timed_kernel_11]
	mov rdi, qword ptr [rbp - 96]
	mov rsi, 6
	.p2align 4
.Ltasor_timed_kernel_12:
	vmulps ymm0, ymm15, [rdi + 0]
	vmovups [rdi + 0], ymm0
	add rdi, 32
	dec rsi
	jne .Ltasor_timed_kernel_12
.Ltasor_timed_kernel_13:
	lea rax, [rsp + 704]
	mov qword ptr [rbp - 104], rax
	mov rdi, qword ptr [rbp - 96]
	mov rsi, 8
	mov rdx, 6
	mov rcx, qword ptr [rbp - 104]
	mov r8, 6
	mov r9, 8
	call tasor_transpose_8x8_f32@PLT
	mov rax, qword ptr [rbp - 64]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 72]
	imul rcx, qword ptr [rbp - 88], 24
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	vmovups ymm0, [rip + .Ltasor_timed_kernel_14]
	mov rdi, qword ptr [rbp - 104]
	mov r8, qword ptr [rbp - 112]
	mov r9, qword ptr [rbp - 120]
	mov rsi, 8
	.p2align 4
.Ltasor_timed_kernel_15:
	vmaskmovps ymm1, ymm0, [rdi + 0]
	vmaskmovps ymm2, ymm0, [r8 + 0]
	vaddps ymm1, ymm1, ymm2
	vmovups [r9 + 0], xmm1
	vextractf128 xmm2, ymm1, 1
	vmovlps qword ptr [r9 + 16], xmm2
	add rdi, 24
	add r8, 160
	add r9, 160
	dec rsi
	jne .Ltasor_timed_kernel_15
.Ltasor_timed_kernel_16:
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_3
.Ltasor_timed_kernel_4:
	mov qword ptr [rbp - 88], 0
.Ltasor_timed_kernel_17:
	mov rax, 3
	cmp qword ptr [rbp - 88], rax
	jge .Ltasor_timed_kernel_18
	mov rax, qword ptr [rbp - 88]
	imul rax, rax, 30
	add rax, 345
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + rax * 4 + 0]
	prefetcht0 [rax]
	inc qword ptr [rbp - 88]
	jmp .Ltasor_timed_kernel_17
.Ltasor_timed_kernel_18:
	lea rax, [rsp + 512]
	mov qword ptr [rbp - 88], rax
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	mov rdi, qword ptr [rbp - 64]
	mov r8, qword ptr [rbp - 72]
	mov r9, qword ptr [rbp - 56]
	mov r10, qword ptr [rbp - 80]
	mov rsi, 6
.Ltasor_timed_kernel_19:
	prefetcht0 [rdi + 144]
	prefetcht0 [rdi + 156]
	prefetcht0 [rdi + 304]
	prefetcht0 [rdi + 316]
	prefetcht0 [r8 + 144]
	prefetcht0 [r8 + 156]
	prefetcht0 [r8 + 304]
	prefetcht0 [r8 + 316]
	mov rbx, r9
	mov r12, r10
	mov r11, 5
	.p2align 4
.Ltasor_timed_kernel_21:
	vmovups ymm4, [r12 + 0]
	vbroadcastss ymm5, dword ptr [rbx + 4320]
	vfmadd231ps ymm0, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 4324]
	vfmadd231ps ymm1, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 4328]
	vfmadd231ps ymm2, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 4332]
	vfmadd231ps ymm3, ymm5, ymm4
	add r12, 32
	add rbx, 24
	dec r11
	jne .Ltasor_timed_kernel_21
.Ltasor_timed_kernel_22:
	add rdi, 320
	add r8, 320
	add r10, 160
	add r9, 120
	dec rsi
	jne .Ltasor_timed_kernel_19
.Ltasor_timed_kernel_20:
	mov rsi, qword ptr [rbp - 88]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	vbroadcastss ymm15, dword ptr [rip + .Ltasor_timed_kernel_23]
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 4
	.p2align 4
.Ltasor_timed_kernel_24:
	vmulps ymm0, ymm15, [rdi + 0]
	vmovups [rdi + 0], ymm0
	add rdi, 32
	dec rsi
	jne .Ltasor_timed_kernel_24
.Ltasor_timed_kernel_25:
	lea rax, [rsp + 640]
	mov qword ptr [rbp - 96], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 8
	mov rdx, 4
	mov rcx, qword ptr [rbp - 96]
	mov r8, 4
	mov r9, 8
	call tasor_transpose_4x8_f32@PLT
	vmovups ymm0, [rip + .Ltasor_timed_kernel_26]
	mov rdi, qword ptr [rbp - 96]
	mov r8, qword ptr [rbp - 64]
	mov r9, qword ptr [rbp - 72]
	mov rsi, 8
	.p2align 4
.Ltasor_timed_kernel_27:
	vmaskmovps ymm1, ymm0, [rdi + 0]
	vmaskmovps ymm2, ymm0, [r8 + 144]
	vaddps ymm1, ymm1, ymm2
	vmovups [r9 + 144], xmm1
	add rdi, 16
	add r8, 160
	add r9, 160
	dec rsi
	jne .Ltasor_timed_kernel_27
.Ltasor_timed_kernel_28:
	mov rcx, qword ptr [rbp - 48]
	lea rax, [rcx + 960]
	mov qword ptr [rbp - 96], rax
	mov rdi, qword ptr [rbp - 80]
	mov rsi, qword ptr [rbp - 96]
	mov rdx, 1
	mov rcx, 30
	mov r8, 8
	call tasor_part_e71b22ee756ce53b@PLT
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 4]
	mov qword ptr [rbp - 88], rax
	mov rdi, qword ptr [rbp - 88]
	mov rsi, 30
	mov rdx, 8
	call tasor_part_bd2988562dfa20a2@PLT
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 0]
	mov [rsp + 0], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 0]
	mov [rsp + 8], rax
	mov rcx, qword ptr [rbp - 80]
	lea rax, [rcx + 0]
	mov [rsp + 16], rax
	mov rcx, qword ptr [rbp - 56]
	lea rax, [rcx + 4320]
	mov [rsp + 24], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 1424]
	mov [rsp + 32], rax
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 1424]
	mov [rsp + 40], rax
	mov rax, 320
	mov [rsp + 48], rax
	mov rax, 320
	mov [rsp + 56], rax
	mov rax, 356
	mov [rsp + 64], rax
	mov rax, 356
	mov [rsp + 72], rax
	mov rcx, qword ptr [rbp - 72]
	lea rax, [rcx + 1280]
	mov qword ptr [rbp - 120], rax
	mov rcx, qword ptr [rbp - 64]
	lea rax, [rcx + 1280]
	mov qword ptr [rbp - 128], rax
	mov rdi, qword ptr [rbp - 64]
	mov rsi, qword ptr [rbp - 72]
	mov rdx, qword ptr [rbp - 80]
	mov rcx, qword ptr [rbp - 56]
	mov r8, qword ptr [rbp - 120]
	mov r9, qword ptr [rbp - 128]
	call tasor_part_d207d4a36b25eb8b@PLT
	mov rbx, qword ptr [rbp - 8]
	mov r12, qword ptr [rbp - 16]
	vzeroupper
	leave
	ret
	.balign 4
.Ltasor_timed_kernel_11:
	.long 0x3F000000
	.balign 32
.Ltasor_timed_kernel_14:
	.long 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x0, 0x0
	.balign 4
.Ltasor_timed_kernel_23:
	.long 0x3F000000
	.balign 32
.Ltasor_timed_kernel_26:
	.long 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0x0, 0x0, 0x0, 0x0
	.intel_syntax noprefix
	.text
	.globl tasor_part_bd2988562dfa20a2
	.type tasor_part_bd2988562dfa20a2, @function
	.p2align 4
tasor_part_bd2988562dfa20a2:
	push rbp
	mov rbp, rsp
	sub rsp, 136
	and rsp, -64
	mov qword ptr [rbp - 48], rdi
	mov qword ptr [rbp - 56], rsi
	mov qword ptr [rbp - 64], rdx
	imul rax, qword ptr [rbp - 64], 4
	mov qword ptr [rbp - 72], rax
	vxorps ymm15, ymm15, ymm15
	mov rdi, qword ptr [rbp - 48]
	cmp qword ptr [rbp - 56], 0
	jle .Ltasor_part_bd2988562dfa20a2_2
	mov rax, qword ptr [rbp - 56]
	mov rsi, rax
	.p2align 4
.Ltasor_part_bd2988562dfa20a2_1:
	vmovups [rdi + 0], xmm15
	vextractf128 xmm1, ymm15, 1
	vmovlps qword ptr [rdi + 16], xmm1
	vextractps dword ptr [rdi + 24], xmm1, 2
	add rdi, qword ptr [rbp - 72]
	dec rsi
	jne .Ltasor_part_bd2988562dfa20a2_1
.Ltasor_part_bd2988562dfa20a2_2:
	vzeroupper
	leave
	ret

	.globl tasor_part_d207d4a36b25eb8b
	.type tasor_part_d207d4a36b25eb8b, @function
	.p2align 4
tasor_part_d207d4a36b25eb8b:
	push rbp
	mov rbp, rsp
	sub rsp, 544
	and rsp, -64
	mov qword ptr [rbp - 8], rbx
	mov qword ptr [rbp - 16], r12
	mov qword ptr [rbp - 24], r13
	mov qword ptr [rbp - 32], r14
	mov qword ptr [rbp - 40], r15
	mov qword ptr [rbp - 48], rdi
	mov qword ptr [rbp - 56], rsi
	mov qword ptr [rbp - 64], rdx
	mov qword ptr [rbp - 72], rcx
	mov qword ptr [rbp - 80], r8
	mov qword ptr [rbp - 88], r9
	lea rax, [rsp + 0]
	mov qword ptr [rbp - 96], rax
	lea rax, [rsp + 192]
	mov qword ptr [rbp - 104], rax
	mov rax, qword ptr [rbp - 48]
	imul rcx, qword ptr [rbp + 64], 4
	add rax, rcx
	mov qword ptr [rbp - 112], rax
	mov rax, qword ptr [rbp - 56]
	imul rcx, qword ptr [rbp + 72], 4
	add rax, rcx
	mov qword ptr [rbp - 120], rax
	mov rax, qword ptr [rbp + 16]
	imul rcx, qword ptr [rbp + 80], 4
	add rax, rcx
	mov qword ptr [rbp - 128], rax
	mov rax, qword ptr [rbp + 24]
	imul rcx, qword ptr [rbp + 88], 4
	add rax, rcx
	mov qword ptr [rbp - 136], rax
	vbroadcastss ymm15, dword ptr [rip + .Ltasor_part_d207d4a36b25eb8b_1]
	mov rdi, qword ptr [rbp - 72]
	mov r8, qword ptr [rbp - 112]
	mov rax, qword ptr [rbp - 120]
	mov qword ptr [rbp - 144], rax
	mov rax, qword ptr [rbp - 88]
	mov qword ptr [rbp - 152], rax
	mov rax, qword ptr [rbp - 80]
	mov qword ptr [rbp - 160], rax
	mov rsi, 6
.Ltasor_part_d207d4a36b25eb8b_2:
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	vxorps ymm4, ymm4, ymm4
	vxorps ymm5, ymm5, ymm5
	mov r10, rdi
	mov r11, r8
	mov rbx, qword ptr [rbp - 144]
	mov r12, qword ptr [rbp - 64]
	mov r9, 6
.Ltasor_part_d207d4a36b25eb8b_4:
	mov r14, r11
	mov r13, 1
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_6:
	prefetcht0 [r14 + 0]
	add r14, 4
	dec r13
	jne .Ltasor_part_d207d4a36b25eb8b_6
.Ltasor_part_d207d4a36b25eb8b_7:
	mov r14, rbx
	mov r13, 1
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_8:
	prefetcht0 [r14 + 0]
	add r14, 4
	dec r13
	jne .Ltasor_part_d207d4a36b25eb8b_8
.Ltasor_part_d207d4a36b25eb8b_9:
	mov r14, r10
	mov r15, r12
	mov r13, 5
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_10:
	vmovups ymm6, [r15 + 0]
	vbroadcastss ymm7, dword ptr [r14 + 0]
	vfmadd231ps ymm0, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [r14 + 4]
	vfmadd231ps ymm1, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [r14 + 8]
	vfmadd231ps ymm2, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [r14 + 12]
	vfmadd231ps ymm3, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [r14 + 16]
	vfmadd231ps ymm4, ymm7, ymm6
	vbroadcastss ymm7, dword ptr [r14 + 20]
	vfmadd231ps ymm5, ymm7, ymm6
	add r15, 32
	add r14, 24
	dec r13
	jne .Ltasor_part_d207d4a36b25eb8b_10
.Ltasor_part_d207d4a36b25eb8b_11:
	add r11, 4
	add rbx, 4
	add r12, 160
	add r10, 120
	dec r9
	jne .Ltasor_part_d207d4a36b25eb8b_4
.Ltasor_part_d207d4a36b25eb8b_5:
	mov r9, qword ptr [rbp - 96]
	vmovups [r9 + 0], ymm0
	vmovups [r9 + 32], ymm1
	vmovups [r9 + 64], ymm2
	vmovups [r9 + 96], ymm3
	vmovups [r9 + 128], ymm4
	vmovups [r9 + 160], ymm5
	mov r10, qword ptr [rbp - 96]
	mov r11, qword ptr [rbp - 152]
	mov rbx, qword ptr [rbp - 160]
	mov r9, 6
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_12:
	vbroadcastss ymm0, dword ptr [r10 + 0]
	vmulps ymm0, ymm0, ymm15
	vbroadcastss ymm1, dword ptr [r11 + 0]
	vaddps ymm0, ymm0, ymm1
	vextractps dword ptr [rbx + 0], xmm0, 0
	add r10, 32
	add r11, 4
	add rbx, 4
	dec r9
	jne .Ltasor_part_d207d4a36b25eb8b_12
.Ltasor_part_d207d4a36b25eb8b_13:
	add r8, 24
	add qword ptr [rbp - 144], 24
	add rdi, 720
	add qword ptr [rbp - 152], 24
	add qword ptr [rbp - 160], 24
	dec rsi
	jne .Ltasor_part_d207d4a36b25eb8b_2
.Ltasor_part_d207d4a36b25eb8b_3:
	vxorps ymm0, ymm0, ymm0
	vxorps ymm1, ymm1, ymm1
	vxorps ymm2, ymm2, ymm2
	vxorps ymm3, ymm3, ymm3
	mov rdi, qword ptr [rbp + 40]
	mov r8, qword ptr [rbp - 128]
	mov r9, qword ptr [rbp - 136]
	mov r10, qword ptr [rbp + 32]
	mov rsi, 5
.Ltasor_part_d207d4a36b25eb8b_14:
	mov rbx, r8
	mov r11, 1
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_16:
	prefetcht0 [rbx + 0]
	add rbx, 4
	dec r11
	jne .Ltasor_part_d207d4a36b25eb8b_16
.Ltasor_part_d207d4a36b25eb8b_17:
	mov rbx, r9
	mov r11, 1
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_18:
	prefetcht0 [rbx + 0]
	add rbx, 4
	dec r11
	jne .Ltasor_part_d207d4a36b25eb8b_18
.Ltasor_part_d207d4a36b25eb8b_19:
	mov rbx, rdi
	mov r12, r10
	mov r11, 6
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_20:
	vmovups ymm4, [r12 + 0]
	vbroadcastss ymm5, dword ptr [rbx + 0]
	vfmadd231ps ymm0, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 4]
	vfmadd231ps ymm1, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 8]
	vfmadd231ps ymm2, ymm5, ymm4
	vbroadcastss ymm5, dword ptr [rbx + 12]
	vfmadd231ps ymm3, ymm5, ymm4
	add r12, 32
	add rbx, 24
	dec r11
	jne .Ltasor_part_d207d4a36b25eb8b_20
.Ltasor_part_d207d4a36b25eb8b_21:
	add r8, 4
	add r9, 4
	add r10, 192
	add rdi, 144
	dec rsi
	jne .Ltasor_part_d207d4a36b25eb8b_14
.Ltasor_part_d207d4a36b25eb8b_15:
	mov rsi, qword ptr [rbp - 104]
	vmovups [rsi + 0], ymm0
	vmovups [rsi + 32], ymm1
	vmovups [rsi + 64], ymm2
	vmovups [rsi + 96], ymm3
	vbroadcastss ymm15, dword ptr [rip + .Ltasor_part_d207d4a36b25eb8b_1]
	mov rdi, qword ptr [rbp - 104]
	mov r8, qword ptr [rbp + 56]
	mov r9, qword ptr [rbp + 48]
	mov rsi, 4
	.p2align 4
.Ltasor_part_d207d4a36b25eb8b_22:
	vbroadcastss ymm0, dword ptr [rdi + 0]
	vmulps ymm0, ymm0, ymm15
	vbroadcastss ymm1, dword ptr [r8 + 0]
	vaddps ymm0, ymm0, ymm1
	vextractps dword ptr [r9 + 0], xmm0, 0
	add rdi, 32
	add r8, 4
	add r9, 4
	dec rsi
	jne .Ltasor_part_d207d4a36b25eb8b_22
.Ltasor_part_d207d4a36b25eb8b_23:
	mov rbx, qword ptr [rbp - 8]
	mov r12, qword ptr [rbp - 16]
	mov r13, qword ptr [rbp - 24]
	mov r14, qword ptr [rbp - 32]
	mov r15, qword ptr [rbp - 40]
	vzeroupper
	leave
	ret
	.balign 4
.Ltasor_part_d207d4a36b25eb8b_1:
	.long 0x3F000000

	.section .note.GNU-stack, "", @progbits
